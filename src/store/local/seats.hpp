// SPDX-License-Identifier: MIT
#pragma once

#include "store/local/fence_clock.hpp"
#include "store/local/lock_file.hpp"
#include "store/local/records.hpp"
#include "util/clock.hpp"
#include "util/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// Those who have a lock: as kernel locks tell, and as records reserve it where there is no process.

struct Reservation {
  Seat seat = k_alone;
  HoldRecord record;
  Instant until{};
};

std::vector<Reservation> reserved_seats(const LockFile& file);

// What keeps a claim of `mode` out although no process has the lock; the one that lasts longest. Slots that
// are reserved are no hindrance as such: see take_seat().
std::optional<Reservation> reservation(const LockFile& file, Mode mode);

// A seat for one of several holders, locked. Precondition: try_share() said yes. nullopt: all slots are
// taken. Errors: config, for slots that others hold by another number.
Result<std::optional<Seat>> take_seat(LockFile& file, Mode mode, std::size_t slots);
tl::unexpected<Error> other_slots(std::size_t theirs, std::size_t ours);
Result<bool> has_free_slot(const LockFile& file, std::size_t slots);

// A fence above all that were given before. Precondition: `hold` is ours, shared or not. Errors: of writing.
Result<std::uint64_t> next_fence(LockFile& file, Mode mode, std::uint64_t last, const FenceClock& clock);

// Runs that have joined a hold keep it when its holder has gone; the holder's token is void then. The kernel
// tells: the hold is its holder's as long as that one has its byte. But others may take a byte that was let
// go just to see whether they can have the lock, so the record tells it too (HoldRecord::left).
//
// The holder (end_hold):  1. looks for runs that have joined  2. writes `left` if there are  3. lets go
// A run (join):           a. finds the hold  b. locks its own byte  c. finds the hold again
//
// b before 1: seen, so 2 is done. b after 1, c before 3: joined, and unseen; but whoever takes the byte next
// finds the run, steps back, and does 2 in the holder's place; as for a holder that was killed. c after 2 or
// 3: refused. Where there are none at 1, the holder may have closed the file by then to remove it: c sees
// that. One that dies between 2 and 3, or leaves a guard behind, has the lock until the last copy of its
// descriptor is closed. A detached hold ends with its record: 2 is done always, and first.

// The hold with this token, of whichever process or of none, unless its holder has left it.
struct FoundHold {
  Seat seat = k_alone;
  HoldRecord record;
  std::optional<Instant> until;  // detached: until then; nullopt: as long as its process keeps it
};
Result<std::optional<FoundHold>> find_hold(const LockFile& file, const Token& token);

// The hold that a run with this token has joined, also if its holder has left.
Result<std::optional<FoundHold>> find_joined(const LockFile& file, const Token& joiner);

// Notes that the holder has left, if runs have joined the hold at `seat`. False: there are none.
// Precondition: we have the holder's byte: `hold`, or the seat's.
Result<bool> note_left(LockFile& file, Seat seat);

// Seats whose holds are kept by processes: by their holders, or by runs that have joined them. Ascending;
// k_alone only if it is kept by the latter alone.
Result<std::vector<Seat>> kept_seats(const LockFile& file);

// What is reserved and nobody keeps, k_alone too. `kept`: see above.
std::vector<Reservation> unkept_reservations(const LockFile& file, const std::vector<Seat>& kept);

// The record that tells whose lock this file is.
std::optional<HoldRecord> some_record(const LockFile& file);

}  // namespace klock
