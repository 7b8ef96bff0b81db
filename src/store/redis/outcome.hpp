// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/protocol.hpp"

#include <functional>
#include <string>
#include <utility>

namespace klock::redis {

// What the ways to deal with a lock on Redis have in common.

inline Milliseconds whole(Duration duration) {
  return std::chrono::ceil<Milliseconds>(duration);
}
inline std::string text(Milliseconds duration) {
  return std::to_string(duration.count());
}

// Of the entry of a hold (HoldEntry::state).
const char* entry_state(const Claim& claim);

// An interrupt is an outcome; everything else that ends a call is an error.
template <class Outcome, class Value>
Result<Outcome> outcome_of(Fault&& fault, Value interrupted) {
  if (fault.cause == Cause::interrupted) return Outcome(interrupted);
  return tl::unexpected(std::move(fault.error));
}

// Tries again until it is known that the hold is over, with pauses, until the deadline.
Result<Released> release_patiently(const std::function<Io<Released>()>& once, Instant deadline,
                                   Interrupt interrupt);

// After the run that keeps the hold has been asked to end it, which it does when its command has: looks with
// pauses whether it `stands`. A fault (system) if it still does at the deadline.
Io<Released> await_end(const std::function<Io<bool>()>& stands, Instant deadline, Interrupt interrupt);

}  // namespace klock::redis
