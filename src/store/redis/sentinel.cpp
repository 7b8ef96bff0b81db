// SPDX-License-Identifier: MIT
#include "store/redis/sentinel.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace klock::redis {
namespace {

using std::chrono::milliseconds;

constexpr Duration k_fresh = milliseconds(100);
constexpr Duration k_unanswered = std::chrono::seconds(2);

// What one Sentinel's fault means for the store.
Fault fault_of_sentinel(const RedisUrl& sentinel, Fault fault) {
  Error& error = fault.error;
  if (error.kind == ErrorKind::config) return fault;  // our own, whichever is asked
  const bool understood = fault.cause != Cause::tls;
  if (understood && error.kind == ErrorKind::refused)
    error.hint =
        "--sentinel-user and KLOCK_SENTINEL_PASSWORD_FILE log in there; it needs SENTINEL "
        "GET-MASTER-ADDR-BY-NAME";
  if ((understood && error.kind == ErrorKind::protocol) ||
      error.what.find("command that klock needs") != std::string::npos)
    error = {ErrorKind::config, "it is no Sentinel", "check the hosts in the URL"};
  error.what = "the Sentinel " + describe_endpoint(sentinel) + ": " + error.what;
  return fault;
}

bool is_plain_host(std::string_view host) {
  constexpr std::size_t k_longest_host = 255;
  return !host.empty() && host.size() <= k_longest_host &&
         std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// nullopt: it does not know the master.
Io<std::optional<RedisUrl>> ask(const SentinelUrl& url, const RedisUrl& sentinel, Instant deadline,
                                Interrupt interrupt) {
  const Instant until = silent_until(sentinel, deadline);
  KLOCK_TRY(connection, Connection::open(sentinel, Login::plain, until, interrupt));
  Pipeline out;
  out.add({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", url.master});
  KLOCK_CHECK(connection->write(out, until, interrupt));
  KLOCK_TRY(reply, connection->read(until, interrupt));
  if (reply.is_error()) return tl::unexpected<Fault>(fault_of(reply.text));
  if (reply.type == Reply::Type::nil) return std::nullopt;
  const auto port = port_of(reply.text_at(1));
  if (!port || !is_plain_host(reply.text_at(0)))
    return fault(Cause::final, ErrorKind::protocol, "an answer that makes no sense");
  RedisUrl server = url.server;
  server.host = reply.text_at(0);
  server.port = *port;
  return server;
}

// Which servers were named, and by how many.
class Poll {
 public:
  std::size_t add(RedisUrl server) {
    auto found = std::find_if(votes_.begin(), votes_.end(),
                              [&](const Count& one) { return is_same(one.server, server); });
    if (found == votes_.end()) found = votes_.insert(votes_.end(), {std::move(server), 0});
    return ++found->count;
  }
  // The one that most have named. Precondition: there is one.
  const RedisUrl& winner() const {
    return std::max_element(votes_.begin(), votes_.end(),
                            [](const Count& a, const Count& b) { return a.count < b.count; })
        ->server;
  }
  bool empty() const { return votes_.empty(); }

 private:
  struct Count {
    RedisUrl server;
    std::size_t count;
  };
  std::vector<Count> votes_;
};

}  // namespace

Io<SentinelRoute::Named> SentinelRoute::find_master(Instant deadline, Interrupt interrupt) {
  Poll votes;
  std::optional<Fault> failed;
  bool unknown = false;
  bool by_most = false;
  std::vector<RedisUrl> answered;
  std::vector<RedisUrl> silent;
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    const auto named = ask(url_, sentinels_[i], deadline, interrupt);
    if (!named) {
      if (named.error().cause == Cause::interrupted) return interrupted_fault();
      // A refusal tells more than a silence.
      if (!failed || failed->error.kind == ErrorKind::unreachable)
        failed = fault_of_sentinel(sentinels_[i], named.error());
      silent.push_back(sentinels_[i]);
      continue;
    }
    answered.push_back(sentinels_[i]);
    unknown |= !*named;
    by_most = *named && 2 * votes.add(**named) > sentinels_.size();
    if (!by_most) continue;
    answered.insert(answered.end(), sentinels_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    sentinels_.end());
    break;
  }
  sentinels_ = std::move(answered);
  sentinels_.insert(sentinels_.end(), silent.begin(), silent.end());
  if (!votes.empty()) return Named{votes.winner(), by_most};
  if (unknown)
    return fault(Cause::final, ErrorKind::config, "the Sentinels know no master '" + url_.master + "'",
                 "check the name after the hosts in the URL");
  return tl::unexpected<Fault>(*std::move(failed));
}

Io<std::unique_ptr<Connection>> SentinelRoute::open(Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(named, find_master(deadline, interrupt));
  const RedisUrl& master = master_ = std::move(named.server);
  ask_again_ = BootClock::now() + k_fresh;
  const Instant until = std::min(deadline, BootClock::now() + patience(deadline - BootClock::now()));
  auto connection = Connection::open(master, Login::master, until, interrupt);
  if (connection || connection.error().cause == Cause::interrupted) return connection;
  Fault fault = std::move(connection).error();
  // It may just be replaced.
  if (fault.cause == Cause::no_contact || fault.cause == Cause::timeout) fault.cause = Cause::later;
  fault.error.what = "the master " + describe_endpoint(master) + ": " + fault.error.what;
  return tl::unexpected<Fault>(std::move(fault));
}

bool SentinelRoute::leads_elsewhere(const Fault& fault, Instant deadline, Interrupt interrupt) {
  if (fault.cause == Cause::closed || fault.cause == Cause::not_master) return true;
  return fault.cause == Cause::timeout && is_replaced(deadline, interrupt);
}

bool SentinelRoute::is_current(Instant deadline, Interrupt interrupt) {
  return BootClock::now() < ask_again_ || !is_replaced(deadline, interrupt);
}

bool SentinelRoute::is_replaced(Instant deadline, Interrupt interrupt) {
  const auto named = find_master(deadline, interrupt);
  ask_again_ = BootClock::now() + (named ? k_fresh : k_unanswered);
  return named && named->by_most && !is_same(named->server, master_);
}

std::vector<Vote> ask_sentinels(const SentinelUrl& url, Instant deadline, Interrupt interrupt) {
  std::vector<Vote> votes;
  for (const RedisUrl& sentinel : url.sentinels) {
    const auto named = ask(url, sentinel, deadline, interrupt);
    Vote& vote = votes.emplace_back();
    if (!named)
      vote.failed = describe_endpoint(sentinel) + ": " + named.error().error.what;
    else if (*named)
      vote.server = describe_endpoint(**named);
  }
  return votes;
}

Finding judge_sentinels(const std::vector<Vote>& votes) {
  constexpr const char* k_subject = "sentinels";
  const std::string all = std::to_string(votes.size());
  std::map<std::string, std::size_t> named;
  std::string failed;
  for (const Vote& vote : votes) {
    if (!vote.server.empty()) ++named[vote.server];
    if (!vote.failed.empty()) failed += "; " + vote.failed;
  }
  std::string what;
  std::size_t most = 0;
  for (const auto& [server, count] : named) {
    what += (what.empty() ? "" : ", ") + std::to_string(count) + " of " + all + " name " + server;
    most = std::max(most, count);
  }
  if (what.empty()) what = "none of " + all + " names a master";
  what += failed;
  if (2 * most <= votes.size())
    return {Severity::danger, k_subject, what + ": one that has been replaced may be taken for the master",
            "more than half of them must agree"};
  if (most < votes.size())
    return {Severity::warning, k_subject, what + ": if more are missing, no other master is chosen",
            "bring them all back"};
  if (votes.size() < 3)
    return {Severity::warning, k_subject, what + ": too few to outvote one that is cut off",
            "name three or more in the URL"};
  return {Severity::ok, k_subject, what};
}

}  // namespace klock::redis
