// SPDX-License-Identifier: MIT
#include "store/local/seats.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace klock {
namespace {

constexpr int k_fence_tries = 100;

Seat seat_at(Mode mode, Seat number) {
  return mode == Mode::slots ? 2 * number : 2 * number + 1;
}

bool is_slot(Seat seat) {
  return seat % 2 == 0;
}

bool is_reserved(const std::vector<Reservation>& reserved, Seat seat) {
  return std::any_of(reserved.begin(), reserved.end(), [=](const auto& one) { return one.seat == seat; });
}

}  // namespace

std::vector<Reservation> reserved_seats(const LockFile& file) {
  std::vector<Reservation> reserved;
  const Seat limit = seat_records(file);
  for (Seat seat = 0; seat < limit; ++seat) {
    auto record = read_hold(file, seat);
    if (!record) continue;
    if (const auto until = reserved_until(file, *record, seat))
      reserved.push_back({seat, *std::move(record), *until});
  }
  return reserved;
}

std::optional<Reservation> reservation(const LockFile& file, Mode mode) {
  std::optional<Reservation> longest;
  if (auto record = read_hold(file))
    if (const auto until = reserved_until(file, *record)) longest = {k_alone, *std::move(record), *until};
  if (mode != Mode::exclusive) return longest;
  for (Reservation& one : reserved_seats(file))
    if (!longest || one.until > longest->until) longest = std::move(one);
  return longest;
}

// The number of slots by which others hold slots; `ours` if none do. Those that are only reserved, or left to
// runs that have joined, have nobody who locks their cap.
Result<std::size_t> other_count(const LockFile& file, std::size_t ours,
                                const std::vector<Reservation>& reserved) {
  KLOCK_TRY(cap, file.other_cap(ours));
  if (cap) return *cap;
  for (const Reservation& one : reserved)
    if (is_slot(one.seat)) return one.record.slots;
  KLOCK_TRY(joined, file.joined_seats());
  for (const Seat seat : joined)
    if (const auto record = is_slot(seat) ? read_hold(file, seat) : std::nullopt; record && record->slots > 0)
      return record->slots;
  return ours;
}

// Whoever counts differently has locked his own cap before he looks for ours: so one of two sees the other.
Result<std::optional<Seat>> take_seat(LockFile& file, Mode mode, std::size_t slots) {
  Seat limit = LockFile::k_seat_limit / 2;
  const std::vector<Reservation> reserved = reserved_seats(file);
  if (mode == Mode::slots) {
    limit = static_cast<Seat>(slots);
    KLOCK_CHECK(file.try_cap(slots));
    KLOCK_TRY(other, other_count(file, slots, reserved));
    if (other != slots) return other_slots(other, slots);
  }
  for (Seat number = 0; number < limit; ++number) {
    const Seat seat = seat_at(mode, number);
    if (is_reserved(reserved, seat)) continue;
    KLOCK_TRY(taken, file.try_seat(seat));
    if (!taken) continue;
    // After we have it: who joins looks for the holder after he has noted himself.
    KLOCK_TRY(joined, note_left(file, seat));
    if (!joined) return seat;
    file.drop_seat(seat);
  }
  return std::nullopt;
}

tl::unexpected<Error> other_slots(std::size_t theirs, std::size_t ours) {
  return failure(ErrorKind::config,
                 "it is held with " + std::to_string(theirs) + " slots, not " + std::to_string(ours),
                 "every user of a lock must give the same --slots");
}

Result<bool> has_free_slot(const LockFile& file, std::size_t slots) {
  std::vector<Seat> taken;
  for (const Reservation& one : reserved_seats(file))
    if (is_slot(one.seat)) taken.push_back(one.seat);
  KLOCK_TRY(seats, kept_seats(file));
  std::copy_if(seats.begin(), seats.end(), std::back_inserter(taken), is_slot);
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken.size() < slots;
}

// Several may count at once: each adds one to what it read under a byte lock. Whoever is frozen while it has
// that byte does not hold the others up: the clock alone then keeps the order.
Result<std::uint64_t> next_fence(LockFile& file, Mode mode, std::uint64_t last, const FenceClock& clock) {
  const auto above = [&] { return std::max(clock.now_us(), std::max(last, read_fence(file)) + 1); };
  if (mode == Mode::exclusive) return above();
  bool locked = false;
  for (int i = 0; i < k_fence_tries && !locked; ++i) {
    if (i > 0) sched_yield();
    KLOCK_TRY(taken, file.try_fence());
    locked = taken;
  }
  const std::uint64_t fence = above();
  const Status written = write_fence(file, fence);
  if (locked) file.drop_fence();
  if (!written) return tl::unexpected(written.error());
  return fence;
}

Result<std::optional<FoundHold>> find_hold(const LockFile& file, const Token& token) {
  const std::string id = token.id();
  const auto fits = [&](const std::optional<HoldRecord>& record) {
    return record && record->id == id && !record->left && record->proof == proof_of(token);
  };
  if (auto record = read_hold(file); fits(record)) {
    if (record->detached) {
      const auto until = reserved_until(file, *record);
      if (!until) return std::nullopt;
      return FoundHold{k_alone, *std::move(record), until};
    }
    KLOCK_TRY(kind, file.hold_kind());
    if (kind != ByteLock::exclusive) return std::nullopt;
    return FoundHold{k_alone, *std::move(record), std::nullopt};
  }
  for (Reservation& one : reserved_seats(file))
    if (one.record.detached && fits(one.record)) return FoundHold{one.seat, std::move(one.record), one.until};
  KLOCK_TRY(seats, file.seats());
  for (const Seat seat : seats)
    if (auto record = read_hold(file, seat); fits(record) && !record->detached)
      return FoundHold{seat, *std::move(record), std::nullopt};
  return std::nullopt;
}

Result<std::optional<FoundHold>> find_joined(const LockFile& file, const Token& joiner) {
  KLOCK_TRY(seats, file.joined_seats());
  const Joiner who = joiner_of(joiner);
  for (const Seat seat : seats) {
    KLOCK_TRY(joined, file.is_joined(seat, who));
    auto record = joined ? read_hold(file, seat) : std::nullopt;
    if (!record) continue;
    const auto until = detached_until(file, *record, seat);
    return FoundHold{seat, *std::move(record), until};
  }
  return std::nullopt;
}

Result<bool> note_left(LockFile& file, Seat seat) {
  KLOCK_TRY(joined, file.is_joined(seat));
  if (!joined) return false;
  auto record = read_hold(file, seat);
  if (record && !std::exchange(record->left, true)) KLOCK_CHECK(write_hold(file, *record, seat));
  return true;
}

Result<std::vector<Seat>> kept_seats(const LockFile& file) {
  KLOCK_TRY(seats, file.seats());
  KLOCK_TRY(joined, file.joined_seats());
  std::vector<Seat> kept;
  std::set_union(seats.begin(), seats.end(), joined.begin(), joined.end(), std::back_inserter(kept));
  return kept;
}

std::vector<Reservation> unkept_reservations(const LockFile& file, const std::vector<Seat>& kept) {
  std::vector<Reservation> reserved = reserved_seats(file);
  if (auto alone = reservation(file, Mode::shared)) reserved.push_back(*std::move(alone));
  std::erase_if(reserved, [&](const Reservation& one) {
    return std::binary_search(kept.begin(), kept.end(), one.seat);
  });
  return reserved;
}

std::optional<HoldRecord> some_record(const LockFile& file) {
  for (const Seat seat : {k_alone, Seat{0}, Seat{1}})
    if (auto record = read_hold(file, seat)) return record;
  return std::nullopt;
}

}  // namespace klock
