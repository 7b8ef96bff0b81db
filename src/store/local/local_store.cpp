// SPDX-License-Identifier: MIT
#include "store/local/local_store.hpp"

#include "store/local/directory_doctor.hpp"
#include "store/local/event_file.hpp"
#include "store/local/local_session.hpp"
#include "store/local/lock_directory.hpp"
#include "store/local/markers.hpp"
#include "store/local/seats.hpp"
#include "store/local/statistics_file.hpp"
#include "store/local/survey.hpp"

#include <sys/stat.h>

namespace klock {
namespace {

class LocalStore final : public LockStore {
 public:
  LocalStore(const std::string& directory, std::string prefix)
      : directory_(std::make_shared<const LockDirectory>(directory)),
        markers_(directory),
        events_(directory, directory_->file_mode()),
        statistics_(directory, directory_->file_mode()),
        prefix_(std::move(prefix)) {}

  std::string describe() const override { return "local:" + directory_->path(); }
  bool has_leases() const override { return false; }

  std::unique_ptr<LockSession> session(Claim claim) override {
    return std::make_unique<LocalSession>(directory_, markers_, std::move(claim));
  }

  Result<LockState> inspect(const LockName& lock, Instant, Interrupt) override {
    auto state = survey(*directory_, lock);
    if (state && state->occupancy == Occupancy::free) sweep(*directory_, lock_file_name(lock.key));
    return state;
  }

  Result<std::vector<LockState>> list(const std::string& pattern, Instant deadline,
                                      Interrupt interrupt) override {
    auto states = survey_all(*directory_, prefix_, pattern, deadline, interrupt);
    if (states) sweep_all(*directory_, *states);
    return states;
  }

  Result<Eviction> ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                            Instant deadline) override;
  Result<Eviction> remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                          Instant deadline) override;
  Result<std::optional<Marker>> marker(const LockName& lock, const std::string& key, Instant) override {
    return markers_.find(lock.key, key);
  }
  Result<bool> clear_marker(const LockName& lock, const std::string& key, Instant) override {
    return markers_.clear(lock.key, key);
  }
  Result<std::vector<Finding>> examine(Duration, Instant, Interrupt) override {
    return examine_directory(*directory_);
  }
  Result<std::vector<GroupStatistics>> statistics(Instant, Interrupt) override { return statistics_.read(); }
  bool notes_events() const override { return false; }
  Status note(const Event& event, Instant, Interrupt) override {
    KLOCK_CHECK(events_.append(event));
    return statistics_.add(group_of(event.lock.name, event.group), event);
  }
  Result<EventPage> events(const EventQuery& query, Instant, Interrupt) override {
    return events_.read(query);
  }

 private:
  Result<std::shared_ptr<LockFile>> open_edited(const std::string& path, Instant deadline);

  const std::shared_ptr<const LockDirectory> directory_;
  const Markers markers_;
  const EventFile events_;
  const StatisticsFile statistics_;
  const std::string prefix_;
};

// Nobody but us may remove the file or become its holder while it is open: `edit` is ours. nullptr: there is
// none.
Result<std::shared_ptr<LockFile>> LocalStore::open_edited(const std::string& path, Instant deadline) {
  for (;;) {
    KLOCK_TRY(file, LockFile::open(path, LockFile::Open::existing));
    if (!file) return nullptr;
    KLOCK_TRY(edited, file->try_edit());
    if (edited) {
      KLOCK_TRY(current, file->is_current());
      if (current) return file;
    }
    // Another administrator, or a holder that is removing the file: a matter of microseconds unless it is
    // frozen.
    if (BootClock::now() >= deadline)
      return failure(ErrorKind::system, path + " is being changed by another process, which does not finish");
    wait_ready(-1, 0, BootClock::now() + std::chrono::milliseconds(1), {});
  }
}

// The hold that was shown, if it is still there.
struct Shown {
  Seat seat = k_alone;
  bool kept = false;    // by a process
  bool others = false;  // hold it too
};

Result<std::optional<Shown>> find_shown(const LockFile& file, const Holder& shown) {
  KLOCK_TRY(kind, file.hold_kind());
  KLOCK_TRY(seats, kept_seats(file));
  const std::vector<Reservation> reserved = unkept_reservations(file, seats);
  const bool others = seats.size() + reserved.size() > 1;
  // A holder whose record nobody can read has no id either.
  if (kind == ByteLock::exclusive) {
    const auto record = read_hold(file);
    if ((record ? record->id : std::string()) != shown.id) return std::nullopt;
    return Shown{k_alone, true, false};
  }
  for (const Seat seat : seats)
    if (const auto record = read_hold(file, seat); record && record->id == shown.id)
      return Shown{seat, true, others};
  for (const Reservation& one : reserved)
    if (one.record.id == shown.id) return Shown{one.seat, false, others || kind};
  return std::nullopt;
}

// The share of one of several can't be taken from its process: it has been told that it is without the lock.
Result<Eviction> await_departure(const LockFile& file, const Holder& shown, Instant deadline) {
  for (;;) {
    KLOCK_TRY(still, find_shown(file, shown));
    if (!still) return Eviction::done;
    if (BootClock::now() >= deadline)
      return failure(ErrorKind::system, "others hold it too, and the process of this hold does not let go",
                     "it has been told; look again: klock status");
    wait_ready(-1, 0, BootClock::now() + std::chrono::milliseconds(5), {});
  }
}

Result<Eviction> remove_one(LockFile& file, const Shown& found, const Holder& shown,
                            const StopRequest& request, Instant deadline) {
  KLOCK_CHECK(found.kept ? write_stop(file, {shown.id, request, true}, found.seat)
                         : clear_hold(file, found.seat));
  file.touch();
  return found.kept ? await_departure(file, shown, deadline) : Eviction::done;
}

Result<Eviction> LocalStore::ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                                      Instant deadline) {
  KLOCK_TRY(exists, directory_->check());
  if (!exists) return Eviction::gone;
  KLOCK_TRY(file, LockFile::open(directory_->file_path(lock.key), LockFile::Open::existing));
  if (!file) return Eviction::gone;
  KLOCK_TRY(found, find_shown(*file, shown));
  // Nobody runs under a reservation: ending it is all there is to ask for.
  if (!found || !found->kept) return remove(lock, shown, request, deadline);
  if (shown.id.empty()) return Eviction::foreign;
  KLOCK_CHECK(write_stop(*file, {shown.id, request, false}, found->seat));
  file->touch();  // wakes the holder; one that is blind to it looks once in a while
  return Eviction::done;
}

Result<Eviction> LocalStore::remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                                    Instant deadline) {
  KLOCK_TRY(exists, directory_->check());
  if (!exists) return Eviction::gone;
  KLOCK_TRY(file, open_edited(directory_->file_path(lock.key), deadline));
  if (!file) return Eviction::gone;
  KLOCK_TRY(found, find_shown(*file, shown));
  if (!found) {
    KLOCK_TRY(held, file->is_held());
    KLOCK_TRY(joined, file->is_joined());
    return held || joined || reservation(*file, Mode::exclusive) ? Eviction::changed : Eviction::gone;
  }
  if (found->others) return remove_one(*file, *found, shown, request, deadline);
  if (found->kept) (void)write_stop(*file, {shown.id, request, true}, found->seat);
  // Newcomers start with a new file; whoever waits in this one notices, and follows in order of arrival.
  KLOCK_CHECK(file->unlink_now());
  return Eviction::done;
}

}  // namespace

std::unique_ptr<LockStore> open_local_store(const std::string& directory, const std::string& prefix) {
  return std::make_unique<LocalStore>(directory, prefix);
}

}  // namespace klock
