// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "store/local/lock_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace klock {

// What a lock file tells people: JSON texts in fixed regions, each ended by a NUL. It decides
// nothing about exclusion and order among processes; but a cooldown or a detached hold is its record and
// nothing more. Whatever cannot be read or has the wrong shape is unknown. Everything is cut to bounded
// sizes.
//
//   [0, 4096)      the exclusive holder, or the last one
//   [4096, 8128)   the last order to stop it
//   [8128, 8192)   the last fence of those who held it together with others
//   from 8192      waiters, 512 bytes each, at ticket % 1024
//   from 532480    those who hold it with others: for each seat 4096 bytes as at 0 and 4096 as at 4096

struct HoldRecord {
  std::string id;
  std::string proof;  // see proof_of()
  std::string name;
  std::string key;
  Person who;
  std::int64_t since_wall_ms = 0;
  std::int64_t acquired_ns = 0;  // BootClock
  std::uint64_t fence = 0;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;
  // Until then the lock (or slot) stays taken without anybody's kernel lock: BootClock of the boot `boot_id`;
  // 0: it does not. It is a cooldown (--min-hold), or the hold itself if it is detached.
  std::int64_t reserved_until_ns = 0;
  bool detached = false;
  std::string boot_id;
  bool left = false;  // the holder has released it: it stands for the runs that have joined it
};

struct WaitRecord {
  Ticket ticket = 0;
  Person who;
  Mode mode = Mode::exclusive;
  std::int64_t since_ns = 0;  // BootClock
  bool overtaken = false;     // it did not take the free lock in time: others need not give it time again
};

struct StopRecord {
  std::string id;  // of the hold that is meant
  StopRequest request;
  bool removed = false;  // the file is taken away at the same time
};

Status write_hold(LockFile& file, const HoldRecord& record, Seat seat = k_alone);
Status clear_hold(LockFile& file, Seat seat = k_alone);
std::optional<HoldRecord> read_hold(const LockFile& file, Seat seat = k_alone);
// Seats that have a record, or had one, lie below this.
Seat seat_records(const LockFile& file);

Status write_fence(LockFile& file, std::uint64_t fence);
std::uint64_t read_fence(const LockFile& file);  // 0: none

Status write_wait(LockFile& file, const WaitRecord& record);
std::optional<WaitRecord> read_wait(const LockFile& file, Ticket ticket);

Status write_stop(LockFile& file, const StopRecord& record, Seat seat = k_alone);
// nullopt also if it is meant for another hold than `id`.
std::optional<StopRecord> read_stop(const LockFile& file, const std::string& id, Seat seat = k_alone);

// When what `record` reserves ends, if that is still to come. A cooldown of a hold that was asked to stop is
// none.
std::optional<Instant> reserved_until(const LockFile& file, const HoldRecord& record, Seat seat = k_alone);

// Until when a detached hold lasts; nullopt: it is over, or the hold is not detached.
std::optional<Instant> detached_until(const LockFile& file, const HoldRecord& record, Seat seat);

// Has `record` reserve the lock until then.
void reserve(HoldRecord& record, Instant until);

// What `record` says of the holder, or nothing but that there is one.
Holder to_holder(const std::optional<HoldRecord>& record);
// One whose reservation ends at `until`.
Holder to_holder(const HoldRecord& record, Instant until);

// The record is that of the lock in the file of this name, so that the file is one of ours.
bool belongs_to(const HoldRecord& record, std::string_view file_name);

// What tells whether somebody has a hold's token, and gives nothing of it away (SHA-256): others may be able
// to read the file.
std::string proof_of(const Token& token);

// Who joins with this token. It shows in /proc/locks, and gives nothing of the token away either.
Joiner joiner_of(const Token& token);

}  // namespace klock
