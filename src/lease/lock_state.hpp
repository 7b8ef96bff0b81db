// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace klock {

using Milliseconds = std::chrono::milliseconds;

struct Holder {
  std::string id;           // see Token::id; for a foreign holder a digest of what it stored
  std::string fingerprint;  // opaque: LockStore::ask_stop and remove act only while it still matches
  Person who;
  std::int64_t since_wall_ms = 0;          // 0: unknown
  std::optional<Milliseconds> held;        // by the store's clock
  std::optional<Milliseconds> expires_in;  // nullopt: no lease, or no expiry
  std::uint64_t fence = 0;                 // 0: unknown
  bool cooldown = false;                   // it runs no more: --min-hold keeps its name or its slot taken
  bool foreign = false;                    // not klock's; `what` says what is known
  std::string what;                        // foreign: "string \"abc\"", "hash with 1 field", ...
  std::string client;                      // foreign: the programs that write such locks; a guess, "": none
  std::size_t servers = 0;                 // that have it, of several independent ones (LockState::servers)
};

struct Waiter {
  Person who;
  Mode mode = Mode::exclusive;
  std::optional<Milliseconds> waiting;
};

enum class Occupancy { free, held, cooldown };  // cooldown: nobody runs, but --min-hold keeps the name taken

// A snapshot; it may be out of date when it arrives.
struct LockState {
  LockName lock;
  Occupancy occupancy = Occupancy::free;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;  // of Mode::slots: how many may hold at once; 0: unknown
  std::vector<Holder> holders;
  std::vector<Waiter> waiters;  // in order of arrival
  std::size_t servers = 0;      // of which the store's majority is one; 0: it is not made of several
  std::size_t answered = 0;     // that many of them
};

// Someone's order to end a hold.
struct StopRequest {
  std::string by;  // user@host
  std::string reason;
  bool released = false;  // it came from someone who has the hold's token: a release, not a forced one
};

// Of work that was completed (Once).
struct Marker {
  std::string key;
  Person who;                              // completed it
  std::int64_t since_wall_ms = 0;          // 0: unknown
  std::optional<Milliseconds> expires_in;  // nullopt: unknown
};

}  // namespace klock
