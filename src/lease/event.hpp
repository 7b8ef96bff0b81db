// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"
#include "lease/lock_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock {

// What can happen to a hold or a waiter. Each hold has one beginning (acquired) and one end (released,
// forced, lost, expired), each waiter one beginning (waiting) and one end (acquired, timed_out, gave_up,
// skipped).
enum class EventKind {
  waiting,       // it is in the queue
  acquired,      // after waiting for `waited`
  timed_out,     // busy: not acquired in the time given, without waiting (-n), or with too many waiters
  gave_up,       // interrupted, or ended by an error, while waiting
  skipped,       // the work was done already
  renewed_late,  // the hold was confirmed again only `late` after the last time
  reclaimed,     // its record had vanished and was taken back
  released,
  forced,      // ended by somebody else's order (`by`)
  lost,        // found out by its holder
  expired,     // found out by who came next: the lease had ended
  degraded,    // it goes on without the lock, or under this host's, as the store cannot be reached
  reconnected  // the store that could not be reached is there again, `late` after it was missed
};

// "renewed_late"; of a number that is none of the above "".
std::string_view event_name(EventKind kind);
std::optional<EventKind> parse_event_name(std::string_view name);

// One entry of the audit log. Like everything that other hosts wrote it is untrusted text.
struct Event {
  std::int64_t wall_us = 0;  // since 1970, by the store's clock
  EventKind kind = EventKind::acquired;
  LockName lock;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;    // of Mode::slots; 0: unknown
  std::string id;           // see Token::id: the same for all that happens to one hold and its waiter
  std::uint64_t fence = 0;  // 0: none, or unknown
  Person who;               // whom it happened to
  std::optional<Milliseconds> waited = {};
  std::optional<Milliseconds> held = {};
  std::optional<Milliseconds> late = {};  // since the last confirmation, or without the store
  std::string by = {};                    // who gave the order
  std::string reason = {};
  // For the statistics alone, and not in the log.
  std::string group = {};                // as chosen (Claim::group)
  std::optional<Milliseconds> ttl = {};  // of one that was acquired, where there are leases
  bool unrenewed = false;                // a hold that nobody renews

  std::int64_t wall_ms() const { return wall_us / 1000; }
};

// Which events: from `since_wall_ms` on, or those after `position`, as told by the last page.
struct EventQuery {
  std::int64_t since_wall_ms = 0;
  std::string position = {};  // empty: from the start
};

struct EventPage {
  std::vector<Event> events;  // oldest first
  std::string position;       // for the next query
};

}  // namespace klock
