// SPDX-License-Identifier: MIT
#include "store/local/survey.hpp"

#include "lease/name_pattern.hpp"
#include "store/local/lock_file.hpp"
#include "store/local/seats.hpp"
#include "util/directory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

namespace klock {
namespace {

void add_holder(LockState& state, const std::optional<HoldRecord>& record, Holder holder) {
  if (record) state.mode = record->mode;
  if (record && record->slots != 0) state.slots = record->slots;
  state.holders.push_back(std::move(holder));
}

// Of what processes keep. A detached hold that runs have joined still has its end.
void add_kept(LockState& state, const LockFile& file, Seat seat) {
  const auto record = read_hold(file, seat);
  const auto until = record ? detached_until(file, *record, seat) : std::nullopt;
  add_holder(state, record, until ? to_holder(*record, *until) : to_holder(record));
}

// Of what is taken without a process.
void add_reserved(LockState& state, const Reservation& reserved) {
  // Somebody who runs, or a hold without a process, makes it held.
  if (state.occupancy != Occupancy::held)
    state.occupancy = reserved.record.detached ? Occupancy::held : Occupancy::cooldown;
  Holder holder = to_holder(reserved.record, reserved.until);
  holder.cooldown = !reserved.record.detached;
  add_holder(state, reserved.record, std::move(holder));
}

Status add_holders(LockState& state, const LockFile& file) {
  KLOCK_TRY(kind, file.hold_kind());
  if (kind == ByteLock::exclusive) {
    state.occupancy = Occupancy::held;
    const auto record = read_hold(file);
    add_holder(state, record, to_holder(record));
    return {};
  }
  KLOCK_TRY(seats, kept_seats(file));
  if (kind || !seats.empty()) {
    state.occupancy = Occupancy::held;
    for (const Seat seat : seats) add_kept(state, file, seat);
    // Someone who just gets in has no seat yet.
    if (seats.empty()) state.holders.emplace_back();
  }
  for (const Reservation& reserved : unkept_reservations(file, seats)) add_reserved(state, reserved);
  return {};
}

Result<LockState> look_into(const LockFile& file, LockName lock) {
  LockState state;
  state.lock = std::move(lock);
  KLOCK_CHECK(add_holders(state, file));
  KLOCK_TRY(tickets, file.tickets_before(LockFile::k_ticket_limit));
  KLOCK_TRY(holder, file.holder_ticket());
  const Duration now = BootClock::now().time_since_epoch();
  for (const Ticket ticket : tickets) {
    if (ticket == holder) continue;
    Waiter waiter;
    if (const auto wait = read_wait(file, ticket)) {
      waiter.who = wait->who;
      waiter.mode = wait->mode;
      if (now >= Duration(wait->since_ns))
        waiter.waiting = std::chrono::duration_cast<Milliseconds>(now - Duration(wait->since_ns));
    }
    state.waiters.push_back(std::move(waiter));
  }
  return state;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool is_regular(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Whose lock `file_name` is. A shortened name tells nothing, so the record must, and must fit the name.
std::optional<LockName> name_of(const std::string& file_name, const std::optional<HoldRecord>& record,
                                const std::string& prefix) {
  const bool fits = record && belongs_to(*record, file_name);
  std::optional<std::string> key = lock_file_key(file_name);
  if (!key && fits) key = record->key;
  if (!key || !starts_with(*key, prefix)) return std::nullopt;
  if (fits && !record->name.empty()) return LockName{record->name, *key};
  return LockName{key->substr(prefix.size()), *key};
}

// nullopt: free, not a lock of ours, or not to be shown.
Result<std::optional<LockState>> survey_entry(const LockDirectory& directory, const std::string& file_name,
                                              const std::string& prefix, const std::string& pattern) {
  const std::string path = directory.path() + "/" + file_name;
  auto opened = LockFile::open(path, LockFile::Open::look);
  if (!opened && opened.error().kind == ErrorKind::refused && !is_regular(path)) return std::nullopt;
  KLOCK_TRY(file, std::move(opened));
  if (!file) return std::nullopt;
  const auto condition = file->condition();
  if (!condition || !condition->linked) return std::nullopt;
  const auto record = some_record(*file);
  auto lock = name_of(file_name, record, prefix);
  if (!lock || !matches(lock->name, pattern)) return std::nullopt;
  KLOCK_TRY(state, look_into(*file, std::move(*lock)));
  if (state.occupancy == Occupancy::free && state.waiters.empty()) return std::nullopt;
  return state;
}

}  // namespace

Result<LockState> survey(const LockDirectory& directory, const LockName& lock) {
  LockState free_state;
  free_state.lock = lock;
  KLOCK_TRY(exists, directory.check());
  if (!exists) return free_state;
  KLOCK_TRY(file, LockFile::open(directory.file_path(lock.key), LockFile::Open::look));
  if (!file) return free_state;
  KLOCK_TRY(condition, file->condition());
  if (!condition.linked) return free_state;
  return look_into(*file, lock);
}

Result<std::vector<LockState>> survey_all(const LockDirectory& directory, const std::string& prefix,
                                          const std::string& pattern, Instant deadline, Interrupt interrupt) {
  std::vector<LockState> states;
  KLOCK_TRY(exists, directory.check());
  if (!exists) return states;
  const Directory entries = open_directory(directory.path());
  if (!entries) {
    if (errno == ENOENT) return states;
    return path_failure("cannot read", directory.path(), errno);
  }
  while (const dirent* entry = readdir(entries.get())) {
    if (wait_ready(-1, 0, Instant{}, interrupt) == Ready::interrupted)
      return failure(ErrorKind::system, "interrupted while reading " + directory.path());
    if (BootClock::now() >= deadline)
      return failure(ErrorKind::system, "reading " + directory.path() + " takes too long");
    const std::string file_name = entry->d_name;
    if (!is_lock_file_name(file_name)) continue;
    KLOCK_TRY(state, survey_entry(directory, file_name, prefix, pattern));
    if (state) states.push_back(*std::move(state));
  }
  std::sort(states.begin(), states.end(),
            [](const LockState& a, const LockState& b) { return a.lock.name < b.lock.name; });
  return states;
}

void sweep(const LockDirectory& directory, const std::string& file_name) {
  const std::string path = directory.path() + "/" + file_name;
  const auto file = LockFile::open(path, LockFile::Open::look);
  if (!file || !*file || (*file)->is_engaged().value_or(true)) return;
  // Others keep lock files too, of any name: only a record of ours shows that this one is ours to remove.
  const auto record = some_record(**file);
  if (record && belongs_to(*record, file_name)) tidy_up(path);
}

void sweep_all(const LockDirectory& directory, const std::vector<LockState>& in_use) {
  const Directory entries = open_directory(directory.path());
  if (!entries) return;
  std::unordered_set<std::string> kept;
  for (const LockState& state : in_use) kept.insert(lock_file_name(state.lock.key));
  while (const dirent* entry = readdir(entries.get()))
    if (is_lock_file_name(entry->d_name) && !kept.contains(entry->d_name)) sweep(directory, entry->d_name);
}

}  // namespace klock
