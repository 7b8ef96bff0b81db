// SPDX-License-Identifier: MIT
#include "store/redis/server_facts.hpp"

#include "config/duration.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace klock::redis {
namespace {

constexpr std::size_t k_longest_name = 64;
constexpr std::size_t k_longest_value = 200;
constexpr std::int64_t k_least_major = 5;
constexpr int k_full_percent = 90;
// Replicas report once a second, in whole seconds: less says nothing.
constexpr Duration k_least_lag = std::chrono::seconds(2);
constexpr int k_most_replicas = 100;  // that are looked at

using Number = std::optional<std::int64_t>;
using Text = std::optional<std::string>;

std::string with_unit(std::int64_t count, const std::string& unit) {
  return std::to_string(count) + " " + unit + (count == 1 ? "" : "s");
}

std::string human_bytes(std::int64_t bytes) {
  constexpr double k_mebi = 1024.0 * 1024.0;
  char text[32];
  const double mebi = static_cast<double>(bytes) / k_mebi;
  std::snprintf(text, sizeof text, mebi < 1024 ? "%.1f MiB" : "%.1f GiB", mebi < 1024 ? mebi : mebi / 1024);
  return text;
}

std::string rough_duration(std::int64_t seconds) {
  if (seconds >= 172'800) return with_unit(seconds / 86'400, "day");
  if (seconds >= 7'200) return with_unit(seconds / 3'600, "hour");
  return with_unit(seconds, "second");
}

Finding unknown(std::string subject, const std::string& rights = "+info") {
  return {Severity::unknown, std::move(subject), "the server does not tell this user",
          "ACL SETUSER USER " + rights};
}

Finding judge_version(const ServerFacts& facts) {
  const Text valkey = facts.info("valkey_version");
  const Text version = valkey ? valkey : facts.info("redis_version");
  if (!version) return unknown("server");
  std::string what = (valkey ? "Valkey " : "Redis ") + *version;
  const Number major = ServerFacts::number(version->substr(0, version->find('.')));
  if (!valkey && major && *major < k_least_major)
    return {Severity::danger, "server", what + ": klock needs 5.0 or later", "upgrade the server"};
  if (const Text mode = facts.info(valkey ? "server_mode" : "redis_mode")) what += ", " + *mode;
  if (const Number up = facts.info_number("uptime_in_seconds")) what += ", up " + rough_duration(*up);
  return {Severity::ok, "server", what, {}, facts.info("run_id").value_or("")};
}

bool has_append_only_file(const ServerFacts& facts) {
  return facts.info("aof_enabled") == "1" || facts.setting("appendonly") == "yes";
}

// Every acknowledged lock survives.
bool syncs_always(const ServerFacts& facts) {
  return has_append_only_file(facts) && facts.setting("appendfsync") == "always";
}

Finding judge_append_only_file(const ServerFacts& facts) {
  const std::string sync = facts.setting("appendfsync").value_or("");
  std::string what = "append-only file";
  if (sync == "no")
    return {
        Severity::warning, "persistence",
        what + ", synced when the kernel likes: a crash of its host may lose the last half minute of locks",
        "appendfsync everysec, or always"};
  if (sync == "always") what += ", synced with every write";
  if (sync == "everysec")
    what += ", synced every second: a crash of its host may lose the last second of locks";
  return {Severity::ok, "persistence", what};
}

// nullopt: they succeed.
std::optional<Finding> judge_failed_writes(const ServerFacts& facts) {
  const char* remedy = "look at its log and its disk";
  if (facts.info("aof_last_write_status") == "err")
    return Finding{Severity::danger, "persistence",
                   "writing the append-only file has failed: the server refuses to write (MISCONF)", remedy};
  if (facts.info("rdb_last_bgsave_status") != "err") return std::nullopt;
  const bool refuses = facts.setting("stop-writes-on-bgsave-error") != "no" && facts.setting("save") != "";
  return Finding{refuses ? Severity::danger : Severity::warning, "persistence",
                 std::string("the last snapshot has failed") +
                     (refuses ? ": the server refuses to write (MISCONF)" : ""),
                 remedy};
}

Finding judge_persistence(const ServerFacts& facts) {
  if (auto failed = judge_failed_writes(facts)) return *std::move(failed);
  if (has_append_only_file(facts)) return judge_append_only_file(facts);
  if (!facts.info("aof_enabled") && !facts.setting("appendonly")) return unknown("persistence");
  const char* remedy = "appendonly yes";
  const Text save = facts.setting("save");
  if (save && !save->empty())
    return {Severity::warning, "persistence",
            "snapshots only: a crash loses the locks since the last one, and with them who holds what",
            remedy};
  return {Severity::warning, "persistence",
          std::string(save ? "none" : "no append-only file") + ": a restart may lose who holds what", remedy};
}

Number most_memory(const ServerFacts& facts) {
  const Number told = facts.info_number("maxmemory");
  return told ? told : facts.setting_number("maxmemory");
}

Finding judge_eviction(const ServerFacts& facts) {
  const Text told = facts.info("maxmemory_policy");
  const Text policy = told ? told : facts.setting("maxmemory-policy");
  if (!policy) return unknown("eviction");
  if (*policy == "noeviction") return {Severity::ok, "eviction", *policy};
  const char* remedy = "maxmemory-policy noeviction, or a server of its own for the locks";
  if (most_memory(facts) == 0)
    return {
        Severity::warning, "eviction",
        *policy + ": harmless only as long as maxmemory is 0; else a full server deletes locks that are held",
        remedy};
  std::string what = *policy + ": a full server deletes locks that are held, and two hold them";
  if (const Number evicted = facts.info_number("evicted_keys"); evicted && *evicted > 0)
    what += " (" + with_unit(*evicted, "key") + " evicted so far)";
  return {Severity::danger, "eviction", what, remedy};
}

Finding judge_memory(const ServerFacts& facts) {
  const Number used = facts.info_number("used_memory");
  const Number most = most_memory(facts);
  if (!used || !most) return unknown("memory");
  const Number system = facts.info_number("total_system_memory");
  const std::int64_t limit = *most > 0 ? *most : system.value_or(0);
  std::string what = human_bytes(*used);
  if (limit > 0) what += " of " + human_bytes(limit);
  what += *most > 0 ? " (maxmemory)" : ", maxmemory not set";
  // Not a product, which could overflow: the server's numbers are its own.
  if (limit <= 0 || *used <= limit / 100 * k_full_percent) return {Severity::ok, "memory", what};
  return {Severity::warning, "memory", what + ": a full server refuses new locks",
          "raise maxmemory, or make room there"};
}

Finding judge_role(const ServerFacts& facts) {
  const Text role = facts.info("role");
  if (!role) return unknown("role");
  if (*role == "master") return {Severity::ok, "role", *role};
  std::string what = "replica of " + facts.info("master_host").value_or("?") + " port " +
                     facts.info("master_port").value_or("?");
  if (facts.info("master_link_status") == "down") what += ", with the link to it down";
  return {Severity::danger, "role", what + ": locks can be taken at the master alone",
          "give the master's address (--url)"};
}

// A value of "ip=10.0.0.2,port=6379,state=online,offset=1,lag=0".
std::string field(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const std::string_view part = line.substr(0, line.find(','));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('='))
      return std::string(part.substr(name.size() + 1));
    line.remove_prefix(std::min(part.size() + 1, line.size()));
  }
  return {};
}

// "": it keeps up.
std::string trouble_of(const std::string& replica, Duration ttl) {
  const std::string name = field(replica, "ip") + " port " + field(replica, "port");
  const std::string state = field(replica, "state");
  if (state != "online") return name + " is not online but '" + state + "'";
  const Number lag = ServerFacts::number(field(replica, "lag"));
  const std::int64_t most =
      std::chrono::duration_cast<std::chrono::seconds>(std::max(ttl / 3, k_least_lag)).count();
  return lag && *lag > most ? name + " was last heard of " + with_unit(*lag, "second") + " ago"
                            : std::string();
}

Finding judge_replication(const ServerFacts& facts, Duration ttl) {
  const Number count = facts.info_number("connected_slaves");
  if (!count) return unknown("replication");
  std::string what = *count == 0 ? "no replicas" : with_unit(*count, "replica");
  std::string troubles;
  for (int i = 0; i < std::min<std::int64_t>(*count, k_most_replicas); ++i) {
    const Text replica = facts.info("slave" + std::to_string(i));
    const std::string trouble = replica ? trouble_of(*replica, ttl) : std::string();
    if (!trouble.empty()) troubles += ": " + trouble;
  }
  if (troubles.empty()) return {Severity::ok, "replication", what};
  return {Severity::warning, "replication",
          what + troubles + ": after a failover to it locks that are held are free",
          "look at the replica, its network and its load"};
}

Finding judge_min_replicas(const ServerFacts& facts) {
  const Number count = facts.info_number("connected_slaves");
  const Number least = facts.setting_number("min-replicas-to-write");
  if (!least || !count) return unknown("min-replicas", "+info +config|get");
  const std::string what = "min-replicas-to-write " + std::to_string(*least);
  if (*least > *count)
    return {Severity::danger, "min-replicas", what + ", and there are fewer: the server refuses to write",
            "bring the replicas back"};
  if (*least > 0 || *count == 0) return {Severity::ok, "min-replicas", what};
  return {
      Severity::warning, "min-replicas",
      what +
          ": a master that is cut off from its replicas goes on giving locks that their next master gives "
          "again",
      "min-replicas-to-write 1, min-replicas-max-lag 10, if a replica may become the master"};
}

Finding judge_restart(const ServerFacts& facts, Duration ttl) {
  const Number up = facts.info_number("uptime_in_seconds");
  if (!up) return unknown("restart");
  const std::string since = "up for " + rough_duration(*up);
  const bool long_ago = *up >= std::chrono::ceil<std::chrono::seconds>(ttl).count();
  if (long_ago) return {Severity::ok, "restart", since + ", longer than a lease of " + format_duration(ttl)};
  if (syncs_always(facts))
    return {Severity::ok, "restart", since + ", and no lock was lost (appendfsync always)"};
  return {Severity::warning, "restart",
          since + ", less than a lease of " + format_duration(ttl) +
              ": locks of before may be lost while their commands still run",
          "wait for one lease before you rely on the locks"};
}

}  // namespace

void ServerFacts::add_info(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || colon > k_longest_name || line.starts_with('#')) continue;
    std::string_view value = line.substr(colon + 1);
    if (value.ends_with('\r')) value.remove_suffix(1);
    info_.insert_or_assign(std::string(line.substr(0, colon)), value.substr(0, k_longest_value));
  }
}

void ServerFacts::add_setting(std::string_view name, std::string_view value) {
  settings_.insert_or_assign(std::string(name.substr(0, k_longest_name)), value.substr(0, k_longest_value));
}

std::optional<std::string> ServerFacts::find(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> ServerFacts::number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> wanted_settings() {
  return {"appendonly",       "appendfsync",          "save", "stop-writes-on-bgsave-error", "maxmemory",
          "maxmemory-policy", "min-replicas-to-write"};
}

std::vector<Finding> judge_server(const ServerFacts& facts, Duration ttl) {
  std::vector<Finding> findings{judge_version(facts), judge_persistence(facts), judge_eviction(facts),
                                judge_memory(facts), judge_role(facts)};
  // A replica's own replicas have no say.
  if (findings.back().severity != Severity::danger) {
    findings.push_back(judge_replication(facts, ttl));
    findings.push_back(judge_min_replicas(facts));
  }
  findings.push_back(judge_restart(facts, ttl));
  return findings;
}

}  // namespace klock::redis
