// SPDX-License-Identifier: MIT
#include "store/redis/doctor.hpp"

#include "config/duration.hpp"
#include "store/redis/client.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/sentinel.hpp"
#include "store/redis/server_facts.hpp"
#include "util/random.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace klock::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t k_samples = 100;
constexpr Duration k_longest_sampling = seconds(1);
constexpr Duration k_clock_tolerance = seconds(1);
constexpr Duration k_tick = milliseconds(1);  // both readings are cut

std::string fraction(Duration value, Duration unit, const char* name) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %s",
                static_cast<double>(value.count()) / static_cast<double>(unit.count()), name);
  return text;
}

// The reading at `percent` of the sorted samples.
Duration percentile(const std::vector<Duration>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[rank == 0 ? 0 : rank - 1];
}

Io<ServerFacts> ask_facts(Client& client, Instant deadline, Interrupt interrupt) {
  Pipeline out;
  out.add({"INFO"});
  for (const std::string_view name : wanted_settings()) out.add({"CONFIG", "GET", name});
  KLOCK_TRY(replies, client.commands(out, deadline, interrupt));
  ServerFacts facts;
  facts.add_info(replies[0].is_error() ? std::string_view() : replies[0].text);
  std::size_t at = 1;
  for (const std::string_view name : wanted_settings()) {
    const Reply& reply = replies[at++];
    if (reply.items.size() == 2) facts.add_setting(name, reply.text_at(1));
  }
  return facts;
}

// TIME, as it also tells the clock. A refusal takes as long.
Io<Contact> sample(Client& client, Instant deadline, Interrupt interrupt) {
  Contact contact;
  Pipeline out;
  out.add({"TIME"});
  Instant now = BootClock::now();
  const Instant end = std::min(now + k_longest_sampling, now + (deadline - now) / 2);
  do {
    const milliseconds wall(wall_ms());
    const Instant sent = BootClock::now();
    KLOCK_TRY(replies, client.commands(out, deadline, interrupt));
    now = BootClock::now();
    const Duration took = now - sent;
    const Reply& time = replies[0];
    if (time.items.size() == 2 && (!contact.clock || took / 2 + k_tick < contact.clock->doubt)) {
      // Seconds that no clock shows must not overflow.
      const seconds theirs(std::clamp<std::int64_t>(time.number_at(0), 0, 4'000'000'000));
      const milliseconds rest(std::clamp<std::int64_t>(time.number_at(1) / 1000, 0, 999));
      contact.clock = Contact::Clock{theirs + rest - (wall + took / 2), took / 2 + k_tick};
    }
    contact.round_trips.push_back(took);
  } while (contact.round_trips.size() < k_samples && now < end);
  return contact;
}

// What is tried on the keys of the prefix may concern another server.
Io<std::vector<Finding>> try_permissions(const Site& site, const std::string& prefix, Instant deadline,
                                         Interrupt interrupt) {
  // Nobody has a lock of this name.
  const auto random = random_hex128();
  if (!random) return tl::unexpected<Fault>(Fault{Cause::final, random.error()});
  const std::string name = "doctor-" + *random;
  const std::vector<Trial> all = trials(prefix, name);
  std::vector<Trial> tried;
  std::vector<Reply> answers;
  for (const bool common : {false, true}) {
    Pipeline out;
    for (const Trial& trial : all) {
      if (trial.on_common_key != common) continue;
      out.add(std::vector<std::string_view>(trial.words.begin(), trial.words.end()));
      tried.push_back(trial);
    }
    Client client(site, common ? index_key(prefix) : LockKeys(prefix + name, prefix).key);
    KLOCK_TRY(replies, client.commands(out, deadline, interrupt));
    std::move(replies.begin(), replies.end(), std::back_inserter(answers));
  }
  return judge_permissions(tried, answers);
}

// Of one server.
Io<std::vector<Finding>> examine_server(const Site& site, Duration ttl, Instant deadline,
                                        Interrupt interrupt) {
  Client client(site, "");
  KLOCK_TRY(facts, ask_facts(client, deadline, interrupt));
  KLOCK_TRY(contact, sample(client, deadline, interrupt));
  std::vector<Finding> findings = judge_server(facts, ttl);
  findings.push_back(judge_clock(contact.clock));
  findings.push_back(judge_round_trips(std::move(contact.round_trips), ttl));
  return findings;
}

Io<std::vector<Finding>> examine_cluster(const ClusterUrl& url, Duration ttl, Instant deadline,
                                         Interrupt interrupt) {
  auto slots = ask_slots(url.nodes, nullptr, deadline, interrupt);
  if (!slots && slots.error().cause != Cause::no_permission)
    return tl::unexpected<Fault>(std::move(slots).error());
  std::vector<ServerFindings> servers;
  for (const RedisUrl& master : slots ? slots->masters() : url.nodes) {
    auto found = examine_server(master, ttl, deadline, interrupt);
    if (!found && found.error().cause == Cause::interrupted) return found;
    if (!found) found = std::vector<Finding>{{Severity::danger, "server", found.error().error.what}};
    servers.push_back({describe_endpoint(master), *std::move(found)});
  }
  std::vector<Finding> findings = merge_findings(servers);
  findings.push_back(slots ? judge_slots(*slots)
                           : Finding{Severity::unknown, "cluster", "this user may not ask who has the slots",
                                     "ACL SETUSER USER +cluster|slots"});
  return findings;
}

}  // namespace

Finding judge_round_trips(std::vector<Duration> samples, Duration ttl) {
  if (samples.empty()) return {Severity::unknown, "round trip", "not measured"};
  std::sort(samples.begin(), samples.end());
  const Duration most = percentile(samples, 99);
  std::string what = "p50 " + fraction(percentile(samples, 50), milliseconds(1), "ms") + ", p99 " +
                     fraction(most, milliseconds(1), "ms") + " of " + std::to_string(samples.size()) +
                     ", lease " + format_duration(ttl);
  const char* remedy = "a longer --ttl, or a server nearer by";
  // A renewal is due every third of the lease, and has to be tried again when it fails.
  if (most > ttl / 3)
    return {Severity::danger, "round trip", what + ": too slow to keep a lock of this lease", remedy};
  if (most > ttl / 10)
    return {Severity::warning, "round trip", what + ": leaves little time to try a renewal again", remedy};
  return {Severity::ok, "round trip", what};
}

Finding judge_clock(const std::optional<Contact::Clock>& clock) {
  if (!clock)
    return {Severity::unknown, "clock", "the server does not tell this user", "ACL SETUSER USER +time"};
  const Duration apart = clock->ahead < Duration::zero() ? -clock->ahead : clock->ahead;
  const bool ahead = clock->ahead > Duration::zero();
  if (apart - clock->doubt <= k_clock_tolerance)
    return {Severity::ok, "clock",
            "within " + fraction(apart + clock->doubt, milliseconds(1), "ms") + " of this host's"};
  return {
      Severity::warning, "clock",
      fraction(apart, seconds(1), "s") + (ahead ? " ahead of" : " behind") +
          " this host's: leases do not depend on it, but times shown and --min-hold do, and a step of the "
          "server's clock ends leases",
      "keep both hosts on time (NTP)"};
}

std::vector<Finding> merge_findings(const std::vector<ServerFindings>& servers) {
  std::vector<Finding> merged;
  for (const auto& [server, findings] : servers) {
    for (const Finding& finding : findings) {
      const auto same = std::find_if(merged.begin(), merged.end(),
                                     [&](const Finding& one) { return one.subject == finding.subject; });
      if (finding.severity == Severity::ok && same != merged.end()) continue;
      Finding told = finding;
      if (servers.size() > 1) told.what = server + ": " + told.what;
      if (same != merged.end() && same->severity == Severity::ok)
        *same = std::move(told);
      else
        merged.insert(same == merged.end() ? same : same + 1, std::move(told));
    }
  }
  return merged;
}

Io<std::vector<Finding>> examine(const Site& site, const std::string& prefix, Duration ttl, Instant deadline,
                                 Interrupt interrupt) {
  const auto* const cluster = std::get_if<ClusterUrl>(&site);
  auto findings = cluster != nullptr ? examine_cluster(*cluster, ttl, deadline, interrupt)
                                     : examine_server(site, ttl, deadline, interrupt);
  if (!findings) return findings;
  KLOCK_TRY(permissions, try_permissions(site, prefix, deadline, interrupt));
  std::move(permissions.begin(), permissions.end(), std::back_inserter(*findings));
  if (const auto* const sentinel = std::get_if<SentinelUrl>(&site))
    findings->push_back(judge_sentinels(ask_sentinels(*sentinel, deadline, interrupt)));
  return findings;
}

}  // namespace klock::redis
