// SPDX-License-Identifier: MIT
#include "commands/locks.hpp"

#include "lease/renewer.hpp"
#include "output/message.hpp"
#include "util/interrupt_set.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace klock {
namespace {

constexpr Duration k_abandon_time = std::chrono::seconds(1);

// The order that ended a hold, if one did.
std::optional<StopRequest> order_of(const RenewalEvent& event) {
  if (const auto* asked = std::get_if<StopAsked>(&event)) return asked->request;
  if (const auto* lost = std::get_if<Lost>(&event)) return lost->removed;
  return std::nullopt;
}

// Renews the locks that are held already while we wait for another one. Its threads start with the wait: one
// that finds everything free, and soon, does not pay for them.
class Keeper {
 public:
  Keeper(std::vector<HeldLock>& locks, Duration ttl, Interrupt signals)
      : locks_(locks), ttl_(ttl), signals_(signals) {}

  Status open() { return news_.add(signals_.fd); }

  // Raised by a signal, and by the end of a lock that is kept. What passes is no reason to leave the queue.
  Interrupt interrupt() const { return news_.interrupt(); }
  bool signalled() const {
    pollfd signal{signals_.fd, POLLIN, 0};
    return poll(&signal, 1, 0) > 0;
  }

  // Of the first `count` locks those that are not kept yet. One that can't be for now is tried again at the
  // next look.
  void keep(std::size_t count) {
    while (renewers_.size() < count) {
      HeldLock& lock = locks_[renewers_.size()];
      auto renewer = std::make_unique<Renewer>(*lock.session, lock.lease, ttl_, [](Instant) {});
      renewer->report_ends_only();
      if (!renewer->start() || !news_.add(renewer->event_fd())) return;
      renewers_.push_back(std::move(renewer));
    }
  }

  // Whether one of them has been lost, or is to be.
  bool has_ended() {
    for (std::size_t i = 0; i < renewers_.size(); ++i)
      for (const RenewalEvent& event : renewers_[i]->take_events()) {
        if (auto order = order_of(event); order && !order_) {
          order_ = std::move(order);
          ordered_ = i;
        }
        ended_ |= order_ || std::holds_alternative<Lost>(event);
      }
    return ended_;
  }
  // Who wanted that, and of which lock.
  const std::optional<StopRequest>& order() const { return order_; }
  const std::string& ordered() const { return locks_[ordered_].name; }

  void stop() {
    for (std::size_t i = 0; i < renewers_.size(); ++i) {
      renewers_[i]->stop();
      locks_[i].lease.deadline = renewers_[i]->deadline();
    }
  }

 private:
  std::vector<HeldLock>& locks_;
  const Duration ttl_;
  const Interrupt signals_;
  InterruptSet news_;
  std::vector<std::unique_ptr<Renewer>> renewers_;
  bool ended_ = false;
  std::optional<StopRequest> order_;
  std::size_t ordered_ = 0;
};

}  // namespace

Locks::Locks(LockStore& store, std::vector<Claim> claims) : store_(store), claims_(std::move(claims)) {
  const std::string first = claims_.front().lock.key;
  std::sort(claims_.begin(), claims_.end(),
            [](const Claim& a, const Claim& b) { return a.lock.key < b.lock.key; });
  for (const Claim& claim : claims_) {
    if (claim.lock.key == first) first_ = locks_.size();
    locks_.push_back({claim.lock.name, store_.session(claim), {}});
  }
  last_name_ = locks_.front().name;
}

void Locks::begin(bool enqueue, Instant deadline, Interrupt interrupt) {
  locks_.front().session->begin(enqueue, deadline, interrupt);
}

void Locks::withdraw(Instant deadline) {
  locks_.front().session->withdraw(deadline);
}

Result<Acquisition> Locks::acquire(const WaitPolicy& policy, Interrupt interrupt, const Observer& observer) {
  if (locks_.size() > 1) {
    for (bool again = false;;) {
      auto acquisition = take_all(policy, interrupt, observer, again);
      if (!again) return acquisition;
      if (BootClock::now() >= policy.limit) return Busy{};
    }
  }
  HeldLock& only = locks_.front();
  auto acquisition = klock::acquire(*only.session, policy, interrupt,
                                    [&](const Busy& busy) { return observer(only.name, busy); });
  if (acquisition)
    if (const auto* lease = std::get_if<Lease>(&*acquisition)) only.lease = *lease;
  return acquisition;
}

// One round. `again`: a lock that we had was lost while we waited for another one, in the last round and in
// this one. A store may be so slow that it is lost before we hear that we have to wait.
Result<Acquisition> Locks::take_all(const WaitPolicy& policy, Interrupt interrupt, const Observer& observer,
                                    bool& again) {
  Keeper keeper(locks_, claims_.front().ttl, interrupt);
  KLOCK_CHECK(keeper.open());
  Result<Acquisition> got = Interrupted{};
  std::size_t count = 0;
  const bool keep_at_once = std::exchange(again, false);
  while (count < locks_.size()) {
    if (keep_at_once) keeper.keep(count);
    HeldLock& next = locks_[count];
    last_name_ = next.name;
    got = klock::acquire(*next.session, policy, keeper.interrupt(), [&](const Busy& busy) {
      keeper.keep(count);
      return observer(next.name, busy);
    });
    if (got && std::holds_alternative<Lease>(*got)) {
      next.lease = std::get<Lease>(*got);
      ++count;
    } else if (!got || !std::holds_alternative<Interrupted>(*got) || keeper.signalled() ||
               keeper.has_ended()) {
      break;
    }
  }
  keeper.stop();
  const bool ended = keeper.has_ended() || (count == locks_.size() && BootClock::now() >= deadline());
  if (count == locks_.size()) {
    if (!ended) return lease();
    got = Interrupted{};
  }
  abandon(count);
  if (ended && keeper.order() && !keeper.signalled()) {
    last_name_ = keeper.ordered();
    return failure(ErrorKind::forced, "the lock was released by force " + describe_order(*keeper.order()) +
                                          "; the command was not started");
  }
  again = ended && !keeper.signalled() && got && std::holds_alternative<Interrupted>(*got);
  return got;
}

Instant Locks::deadline() const {
  Instant earliest = k_never;
  for (const HeldLock& lock : locks_) earliest = std::min(earliest, lock.lease.deadline);
  return earliest;
}

std::vector<int> Locks::hold_fds() const {
  std::vector<int> fds;
  for (const HeldLock& lock : locks_) fds.push_back(lock.session->hold_fd());
  return fds;
}

Status Locks::count_min_hold(bool counts) {
  for (const HeldLock& lock : locks_) KLOCK_CHECK(lock.session->count_min_hold(counts));
  return {};
}

void Locks::heed_start() {
  for (const HeldLock& lock : locks_) lock.session->heed_start();
}

// Gives back the first `count` locks. Best effort: what can't be released ends with its lease.
void Locks::abandon(std::size_t count) {
  const Instant deadline = BootClock::now() + k_abandon_time;
  for (std::size_t i = count; i-- > 0;) {
    locks_[i].session->explain_end(EventKind::gave_up, "given back: " + last_name_ + " could not be had");
    (void)locks_[i].session->release(deadline, {});
    locks_[i].session = store_.session(claims_[i]);
  }
}

}  // namespace klock
