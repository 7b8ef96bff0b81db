// SPDX-License-Identifier: MIT
#include "store/redis/redis_store.hpp"

#include "lease/name_pattern.hpp"
#include "store/redis/client.hpp"
#include "store/redis/doctor.hpp"
#include "store/redis/event_log.hpp"
#include "store/redis/foreign.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/lock_reader.hpp"
#include "store/redis/permitted_session.hpp"
#include "store/redis/record.hpp"
#include "store/redis/scripts.hpp"
#include "store/redis/statistics.hpp"

#include <algorithm>

namespace klock {
namespace redis {
namespace {

constexpr std::size_t k_batch = 1000;  // locks that are read at once

Error plain_error(Fault&& fault) {
  if (fault.cause == Cause::interrupted) return Error{ErrorKind::unreachable, "interrupted"};
  return std::move(fault.error);
}

class Store final : public LockStore {
 public:
  Store(Site site, const std::string& prefix) : site_(std::move(site)), prefix_(prefix) {}

  std::string describe() const override { return redis::describe(site_); }
  bool has_leases() const override { return true; }
  std::unique_ptr<LockSession> session(Claim claim) override {
    return std::make_unique<PermittedSession>(site_, prefix_, std::move(claim));
  }
  Result<LockState> inspect(const LockName& lock, Instant deadline, Interrupt interrupt) override;
  Result<std::vector<LockState>> list(const std::string& pattern, Instant deadline,
                                      Interrupt interrupt) override;
  Result<Eviction> ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                            Instant deadline) override {
    return evict(scripts::k_ask, lock, shown, request, deadline);
  }
  Result<Eviction> remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                          Instant deadline) override {
    return evict(scripts::k_remove, lock, shown, request, deadline);
  }
  Status wake_others(const LockName& lock, const Holder& removed, Instant deadline) override;
  Result<std::optional<Marker>> marker(const LockName& lock, const std::string& key,
                                       Instant deadline) override;
  Result<bool> clear_marker(const LockName& lock, const std::string& key, Instant deadline) override;
  Status note(const Event& event, Instant deadline, Interrupt interrupt) override;
  Result<EventPage> events(const EventQuery& query, Instant deadline, Interrupt interrupt) override;
  Result<std::vector<GroupStatistics>> statistics(Instant deadline, Interrupt interrupt) override;
  Result<std::vector<Finding>> examine(Duration ttl, Instant deadline, Interrupt interrupt) override;

 private:
  Io<std::vector<LockName>> known_locks(Client& client, Instant deadline, Interrupt interrupt);
  Result<Eviction> evict(const Script& script, const LockName& lock, const Holder& shown,
                         const StopRequest& request, Instant deadline);
  // For what belongs to the prefix.
  Client common_client() const { return Client(site_, index_key(prefix_)); }

  const Site site_;
  const std::string prefix_;
};

Result<LockState> Store::inspect(const LockName& lock, Instant deadline, Interrupt interrupt) {
  auto states = LockReader(site_, prefix_).read({lock}, deadline, interrupt);
  if (!states) return tl::unexpected(plain_error(std::move(states).error()));
  auto& state = states->front();
  if (!state) return tl::unexpected(plain_error(std::move(state).error()));
  return *std::move(state);
}

// The locks that the index names; it may name some that ended long ago.
Io<std::vector<LockName>> Store::known_locks(Client& client, Instant deadline, Interrupt interrupt) {
  const std::string index = index_key(prefix_);
  Pipeline out;
  out.add({"ZRANGE", index, "0", "-1"});
  KLOCK_TRY(replies, client.commands(out, deadline, interrupt));
  Reply& members = replies[0];
  if (members.is_error() && members.text.starts_with("WRONGTYPE"))
    return fault(Cause::final, ErrorKind::refused, "the key " + index + " is in use for something else",
                 "klock keeps the list of locks there: rename that key, or choose another --prefix");
  if (members.is_error()) return tl::unexpected<Fault>(fault_of(members.text));
  std::vector<LockName> locks;
  for (Reply& member : members.items) locks.push_back({"", std::move(member.text)});
  return locks;
}

Result<std::vector<LockState>> Store::list(const std::string& pattern, Instant deadline,
                                           Interrupt interrupt) {
  Client client = common_client();
  LockReader reader(site_, prefix_);
  auto locks = known_locks(client, deadline, interrupt);
  if (!locks) return tl::unexpected(plain_error(std::move(locks).error()));
  std::vector<LockState> states;
  for (auto from = locks->begin(); from != locks->end();) {
    const auto to = from + std::min<std::ptrdiff_t>(k_batch, locks->end() - from);
    auto some = reader.read({from, to}, deadline, interrupt);
    if (!some) return tl::unexpected(plain_error(std::move(some).error()));
    for (auto& state : *some) {
      if (!state && is_of_command(state.error()))
        return tl::unexpected(plain_error(std::move(state).error()));
      // What this user may not read must not hide the other locks.
      if (!state || (state->occupancy == Occupancy::free && state->waiters.empty())) continue;
      std::string& name = state->lock.name;
      const std::string& key = state->lock.key;
      if (name.empty()) name = key.starts_with(prefix_) ? key.substr(prefix_.size()) : key;
      if (!matches(name, pattern)) continue;
      states.push_back(*std::move(state));
    }
    from = to;
  }
  std::sort(states.begin(), states.end(),
            [](const LockState& a, const LockState& b) { return a.lock.name < b.lock.name; });
  return states;
}

Result<std::optional<Marker>> Store::marker(const LockName& lock, const std::string& key, Instant deadline) {
  const std::string once = LockKeys(lock.key, prefix_).once_key(key);
  Client client(site_, once);
  auto mark = client.command({"GET", once}, deadline, Interrupt{});
  if (!mark) return tl::unexpected(plain_error(std::move(mark).error()));
  if (mark->type == Reply::Type::nil) return std::nullopt;
  auto left = client.command({"PTTL", once}, deadline, Interrupt{});
  if (!left) return tl::unexpected(plain_error(std::move(left).error()));
  return parse_marker(key, mark->text, left->integer);
}

Result<bool> Store::clear_marker(const LockName& lock, const std::string& key, Instant deadline) {
  const std::string once = LockKeys(lock.key, prefix_).once_key(key);
  Client client(site_, once);
  auto answer = client.command({"DEL", once}, deadline, Interrupt{});
  if (!answer) return tl::unexpected(plain_error(std::move(answer).error()));
  return answer->integer == 1;
}

Result<std::vector<Finding>> Store::examine(Duration ttl, Instant deadline, Interrupt interrupt) {
  auto findings = redis::examine(site_, prefix_, ttl, deadline, interrupt);
  if (!findings) return tl::unexpected(plain_error(std::move(findings).error()));
  return *std::move(findings);
}

Status Store::note(const Event& event, Instant deadline, Interrupt interrupt) {
  const LockKeys keys(event.lock.key, prefix_, group_of(event.lock.name, event.group));
  Client client(site_, keys.key);
  auto noted =
      client.call({scripts::k_note,
                   keys.own(),
                   keys.common(),
                   {event.id, std::string(event_name(event.kind)), mode_text(event.mode, event.slots),
                    details_json(event.lock, event.who), event.reason}},
                  deadline, interrupt);
  if (!noted) return tl::unexpected(plain_error(std::move(noted).error()));
  return {};
}

Result<EventPage> Store::events(const EventQuery& query, Instant deadline, Interrupt interrupt) {
  Client client = common_client();
  auto page = read_events(client, prefix_, query, deadline, interrupt);
  if (!page) return tl::unexpected(plain_error(std::move(page).error()));
  return *std::move(page);
}

Result<std::vector<GroupStatistics>> Store::statistics(Instant deadline, Interrupt interrupt) {
  Client client = common_client();
  auto groups = read_statistics(client, prefix_, deadline, interrupt);
  if (!groups) return tl::unexpected(plain_error(std::move(groups).error()));
  return *std::move(groups);
}

Result<Eviction> Store::evict(const Script& script, const LockName& lock, const Holder& shown,
                              const StopRequest& request, Instant deadline) {
  const LockKeys keys(lock.key, prefix_, group_of(lock.name, {}));
  const std::string json = request_json(request, shown.id);
  Client client(site_, keys.key);
  // That it is the right server is known first: the wrong one executes what is sent with the question.
  if (auto pong = client.command({"ECHO", "klock"}, deadline, Interrupt{}); !pong) {
    if (pong.error().cause != Cause::no_permission)
      return tl::unexpected(plain_error(std::move(pong).error()));
  }
  auto answer =
      client.call({script, keys.own(), keys.common(), {shown.fingerprint, json}}, deadline, Interrupt{});
  if (!answer) return tl::unexpected(plain_error(std::move(answer).error()));
  const std::string_view word = answer->text_at(0);
  if (word == "done") return Eviction::done;
  if (word == "changed") return Eviction::changed;
  if (word == "gone") return Eviction::gone;
  if (word == "foreign") return Eviction::foreign;
  return failure(ErrorKind::protocol, "the server gave an answer that makes no sense");
}

Status Store::wake_others(const LockName& lock, const Holder& removed, Instant deadline) {
  if (const auto list = signal_list_of(lock.key)) {
    Client client(site_, *list);
    auto pushed = client.call({scripts::k_signal, {*list}, {}, {}}, deadline, Interrupt{});
    if (!pushed) return tl::unexpected(plain_error(std::move(pushed).error()));
  }
  if (const auto signal = signal_of(lock.key, removed.client)) {
    // On a Cluster every server passes it on.
    auto sent =
        Client(site_, lock.key).command({"PUBLISH", signal->channel, signal->message}, deadline, Interrupt{});
    if (!sent) return tl::unexpected(plain_error(std::move(sent).error()));
  }
  return {};
}

}  // namespace
}  // namespace redis

std::unique_ptr<LockStore> open_redis_store(const redis::Site& site, const std::string& prefix) {
  return std::make_unique<redis::Store>(site, prefix);
}

}  // namespace klock
