// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"

#include <algorithm>
#include <functional>

namespace klock {

struct WaitPolicy {
  bool wait = true;          // false: one attempt (-n)
  Instant limit = k_never;   // give up then (-w), exactly
  Duration first_contact{};  // a silent server is unreachable after this (--store-timeout)
  Duration reconnect{};      // a queued waiter looks for a vanished store this long
  bool outlast = false;      // wait for the store too, from the first contact on, until the limit

  // Of a question to the store that is asked now.
  Instant contact_deadline() const {
    const Instant contact = BootClock::now() + first_contact;
    return wait ? std::min(limit, contact) : contact;
  }

  // While it is waited for: told once when it is away, and once when it is back after that time.
  std::function<void(const Error& error)> on_away = {};
  std::function<void(Duration away)> on_back = {};
};

// What came of it. Busy: not acquired in the time given, or not queued up (`full`); it carries what is known
// of the holder. Completed: the work of Claim::once is done already.
using Acquisition = std::variant<Lease, Busy, Completed, Interrupted>;

// Told after each unsuccessful attempt; returns when it wants to be told again (k_never: at the next
// attempt).
using WaitObserver = std::function<Instant(const Busy& busy)>;

// Waits for the lock: attempt, then sleep until there is news, again and again. Blocks until held, `policy`
// is exhausted, or the interrupt is raised. On every way out but Lease the session has been withdrawn:
// nothing of us is left in the queue. Errors: the store's, once `policy` allows no further try.
Result<Acquisition> acquire(LockSession& session, const WaitPolicy& policy, Interrupt interrupt,
                            const WaitObserver& observer);

}  // namespace klock
