// SPDX-License-Identifier: MIT
#pragma once

#include "lease/acquirer.hpp"
#include "lease/lock_store.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace klock {

struct HeldLock {
  std::string name;
  std::unique_ptr<LockSession> session;
  Lease lease;        // its deadline is the last confirmed one
  bool lost = false;  // nothing of ours is left to release
};

// The locks of one run: NAME, and those of --also. Whoever wants several takes them in the order of their
// keys, so that no circle of waiters can come about, and has all of them or none.
class Locks {
 public:
  // Told whom we wait for; see WaitObserver.
  using Observer = std::function<Instant(const std::string& name, const Busy& busy)>;

  // `claims`: NAME's first; one for each key. All have the same token, ttl and mode.
  Locks(LockStore& store, std::vector<Claim> claims);

  // See LockSession::begin() and withdraw().
  void begin(bool enqueue, Instant deadline, Interrupt interrupt);
  void withdraw(Instant deadline);

  // Waits for all of them. A Lease is NAME's. Those that are held already are renewed while we wait for
  // another one; when one of them is lost, all are released and the wait starts over; when its holder (we) is
  // asked to stop, that is an error (forced). Otherwise see acquire() in lease/acquirer.hpp: on every way out
  // but Lease nothing is held.
  Result<Acquisition> acquire(const WaitPolicy& policy, Interrupt interrupt, const Observer& observer);

  // Which lock the last acquire() ended at: for messages.
  const std::string& last_name() const { return last_name_; }

  // In the order in which they were taken. Valid after a Lease.
  std::vector<HeldLock>& held() { return locks_; }
  HeldLock& first() { return locks_[first_]; }  // NAME
  bool is_first(const HeldLock& lock) const { return &lock == &locks_[first_]; }
  const Lease& lease() const { return locks_[first_].lease; }
  Instant deadline() const;  // of the lease that ends first
  std::vector<int> hold_fds() const;
  Status count_min_hold(bool counts);  // see LockSession
  void heed_start();                   // likewise

 private:
  Result<Acquisition> take_all(const WaitPolicy& policy, Interrupt interrupt, const Observer& observer,
                               bool& again);
  void abandon(std::size_t count);

  LockStore& store_;
  std::vector<Claim> claims_;    // sorted by key
  std::vector<HeldLock> locks_;  // likewise
  std::size_t first_ = 0;        // NAME
  std::string last_name_;
};

}  // namespace klock
