// SPDX-License-Identifier: MIT
#include "store/redlock/redlock_store.hpp"

#include "store/redis/connection.hpp"
#include "store/redis/doctor.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redlock/decisions.hpp"
#include "store/redlock/doctor.hpp"
#include "store/redlock/merge.hpp"
#include "store/redlock/redlock_session.hpp"
#include "store/redlock/servers.hpp"

#include <algorithm>

namespace klock {
namespace redlock {
namespace {

constexpr Duration k_server_time = Milliseconds(2000);  // that one may take for an answer
constexpr Duration k_examination = Milliseconds(4000);  // the same, where it is looked at closely
constexpr Duration k_grace = Milliseconds(200);         // for the others once a majority has answered

class Store final : public LockStore {
 public:
  Store(const RedlockUrl& url, const std::string& prefix) : url_(url), prefix_(prefix) {
    for (const RedisUrl& server : url_.servers) names_.push_back(redis::describe_endpoint(server));
  }

  std::string describe() const override;
  bool has_leases() const override { return true; }
  Status accepts(const Claim& claim) const override;
  std::unique_ptr<LockSession> session(Claim claim) override {
    return std::make_unique<RedlockSession>(url_, prefix_, std::move(claim));
  }
  Result<LockState> inspect(const LockName& lock, Instant deadline, Interrupt interrupt) override;
  Result<std::vector<LockState>> list(const std::string& pattern, Instant deadline,
                                      Interrupt interrupt) override;
  Result<Eviction> ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                            Instant deadline) override;
  Result<Eviction> remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                          Instant deadline) override;
  Status wake_others(const LockName& lock, const Holder& removed, Instant deadline) override;
  Result<std::optional<Marker>> marker(const LockName&, const std::string&, Instant) override {
    return tl::unexpected(no_marks());
  }
  Result<bool> clear_marker(const LockName&, const std::string&, Instant) override {
    return tl::unexpected(no_marks());
  }
  Status note(const Event& event, Instant deadline, Interrupt interrupt) override;
  Result<EventPage> events(const EventQuery& query, Instant deadline, Interrupt interrupt) override;
  Result<std::vector<GroupStatistics>> statistics(Instant deadline, Interrupt interrupt) override;
  Result<std::vector<Finding>> examine(Duration ttl, Instant deadline, Interrupt interrupt) override;

 private:
  static Error no_marks() {
    return {ErrorKind::usage, "a Redlock keeps no marks of --once", "use redis:// or redis-sentinel://"};
  }

  // Every server's answer, as far as it comes in time. `call(store, index, until, interrupt)`. Errors: no
  // majority, or interrupted.
  template <class Answer, class Call>
  Result<Answers<Answer>> ask(Call call, Instant deadline, Interrupt interrupt,
                              Duration server_time = k_server_time, Duration grace = k_grace) const;

  const RedlockUrl url_;
  const std::string prefix_;
  std::vector<std::string> names_;  // of the servers
  EventMerger events_;
};

// Those that have one.
template <class Answer>
std::vector<std::optional<Answer>> values_of(Answers<Answer>&& answers) {
  std::vector<std::optional<Answer>> values;
  for (auto& answer : answers)
    if (answer && *answer)
      values.emplace_back(**std::move(answer));
    else
      values.emplace_back();
  return values;
}

Status status_of(const Result<Answers<bool>>& answers) {
  if (!answers) return tl::unexpected(answers.error());
  return {};
}

template <class Answer, class Call>
Result<Answers<Answer>> Store::ask(Call call, Instant deadline, Interrupt interrupt, Duration server_time,
                                   Duration grace) const {
  std::vector<std::unique_ptr<LockStore>> stores;
  for (const RedisUrl& server : url_.servers) stores.push_back(open_redis_store(server, prefix_));
  Servers<LockStore> servers(std::move(stores));
  const Instant until = std::min(deadline, BootClock::now() + server_time);
  bool interrupted = false;
  auto answers = servers.template ask<Answer>(
      [call, until](LockStore& store, std::size_t i, Interrupt over) { return call(store, i, until, over); },
      [](const Answers<Answer>& some) { return is_quorate(some) ? Enough::nearly : Enough::no; },
      {until, grace}, interrupt, interrupted);
  if (interrupted) return failure(ErrorKind::unreachable, "interrupted");
  if (!is_quorate(answers)) return no_quorum_of(names_, answers);
  return answers;
}

std::string Store::describe() const {
  const RedisUrl& first = url_.servers.front();
  std::string text =
      (first.tls ? "redlocks://" : "redlock://") + (first.password.empty() ? "" : first.user + ":***@");
  for (const std::string& name : names_) text += (&name == &names_.front() ? "" : ",") + name;
  return text + (first.database == 0 ? "" : "/" + std::to_string(first.database));
}

Status Store::accepts(const Claim& claim) const {
  const auto refuse = [](const std::string& what, const std::string& why) {
    return failure(ErrorKind::usage, what + " does not go with a Redlock: " + why,
                   "use redis:// or redis-sentinel:// for that");
  };
  if (claim.mode == Mode::shared)
    return refuse("--shared", "each server would let in readers and writers in another order");
  if (claim.mode == Mode::slots)
    return refuse("--slots", "servers that count apart from each other do not fill slots right");
  if (claim.max_waiters) return refuse("--max-waiters", "there is no queue that could be counted");
  if (claim.wait_replicas > 0) return refuse("--wait-replicas", "it counts the replicas of one server");
  if (claim.once)
    return refuse("--once",
                  "a mark has to outlive the servers' restarts, which only the lock's lease is made for");
  return {};
}

Result<LockState> Store::inspect(const LockName& lock, Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(answers, ask<LockState>([lock](LockStore& store, std::size_t, Instant until,
                                           Interrupt over) { return store.inspect(lock, until, over); },
                                    deadline, interrupt));
  return merge_states(lock, values_of(std::move(answers)));
}

Result<std::vector<LockState>> Store::list(const std::string& pattern, Instant deadline,
                                           Interrupt interrupt) {
  KLOCK_TRY(answers, ask<std::vector<LockState>>(
                         [pattern](LockStore& store, std::size_t, Instant until, Interrupt over) {
                           return store.list(pattern, until, over);
                         },
                         deadline, interrupt));
  return merge_lists(values_of(std::move(answers)));
}

// What was shown has the same fingerprint everywhere: the same token is stored.
Result<Eviction> Store::ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                                 Instant deadline) {
  KLOCK_TRY(answers, ask<Eviction>([=](LockStore& store, std::size_t, Instant until,
                                       Interrupt) { return store.ask_stop(lock, shown, request, until); },
                                   deadline, {}));
  return *judge_eviction(answers);
}

Result<Eviction> Store::remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                               Instant deadline) {
  KLOCK_TRY(answers, ask<Eviction>([=](LockStore& store, std::size_t, Instant until,
                                       Interrupt) { return store.remove(lock, shown, request, until); },
                                   deadline, {}));
  return *judge_eviction(answers);
}

Status Store::wake_others(const LockName& lock, const Holder& removed, Instant deadline) {
  const auto answers =
      ask<bool>([=](LockStore& store, std::size_t, Instant until,
                    Interrupt) { return answer_of(store.wake_others(lock, removed, until)); },
                deadline, {});
  return status_of(answers);
}

Status Store::note(const Event& event, Instant deadline, Interrupt interrupt) {
  const auto answers =
      ask<bool>([event](LockStore& store, std::size_t, Instant until,
                        Interrupt over) { return answer_of(store.note(event, until, over)); },
                deadline, interrupt);
  return status_of(answers);
}

Result<EventPage> Store::events(const EventQuery& query, Instant deadline, Interrupt interrupt) {
  std::vector<std::string> positions = split_positions(query.position, names_.size());
  KLOCK_TRY(answers, ask<EventPage>(
                         [=, since = query.since_wall_ms](LockStore& store, std::size_t i, Instant until,
                                                          Interrupt over) {
                           return store.events({since, positions[i]}, until, over);
                         },
                         deadline, interrupt));
  if (query.position.empty()) events_ = {};
  std::vector<std::optional<std::vector<Event>>> pages(names_.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i] || !*answers[i]) continue;
    EventPage& page = **answers[i];
    pages[i] = std::move(page.events);
    positions[i] = std::move(page.position);
  }
  return EventPage{events_.merge(pages), join_positions(positions)};
}

Result<std::vector<GroupStatistics>> Store::statistics(Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(answers,
            ask<std::vector<GroupStatistics>>([](LockStore& store, std::size_t, Instant until,
                                                 Interrupt over) { return store.statistics(until, over); },
                                              deadline, interrupt));
  return merge_statistics(values_of(std::move(answers)));
}

Result<std::vector<Finding>> Store::examine(Duration ttl, Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(answers,
            ask<std::vector<Finding>>([ttl](LockStore& store, std::size_t, Instant until,
                                            Interrupt over) { return store.examine(ttl, until, over); },
                                      deadline, interrupt, k_examination, k_examination));
  std::vector<redis::ServerFindings> servers;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && *answers[i])
      servers.push_back({names_[i], explain_restart(**std::move(answers[i]))});
    else
      missing.push_back(names_[i] + ": " + (answers[i] ? answers[i]->error().what : "no answer"));
  }
  explain_scripts(servers, names_.size());
  std::vector<Finding> findings = redis::merge_findings(servers);
  for (Finding& finding : judge_names(servers)) findings.push_back(std::move(finding));
  findings.push_back(judge_majority(names_.size(), missing));
  return findings;
}

}  // namespace
}  // namespace redlock

std::unique_ptr<LockStore> open_redlock_store(const RedlockUrl& url, const std::string& prefix) {
  return std::make_unique<redlock::Store>(url, prefix);
}

}  // namespace klock
