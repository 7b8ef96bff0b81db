// SPDX-License-Identifier: MIT
// The part of a session that has a hold, or knows one by its token.
#include "store/local/local_session.hpp"
#include "store/local/survey.hpp"

#include <algorithm>

namespace klock {
namespace {

// Between looks at a hold that its process gives up.
constexpr std::chrono::milliseconds k_first_look{1};
constexpr std::chrono::milliseconds k_longest_look{50};

// What those have to heed who have joined the hold. An order to release is its holder's alone, and may have
// come on top of one that is meant for all.
std::optional<StopRecord> read_order_to_joined(const LockFile& file, const std::string& hold, Seat seat) {
  auto stop = read_stop(file, hold, seat);
  if (!stop || !stop->request.released) return stop;
  if (stop->request.by.empty()) return std::nullopt;
  stop->request.released = false;
  return stop;
}

}  // namespace

Result<Renewal> LocalSession::renew(Instant deadline, Interrupt interrupt) {
  return lease_ ? renew_kept() : renew_by_token(true, deadline, interrupt);
}

Result<Renewal> LocalSession::confirm(Instant deadline, Interrupt interrupt) {
  return lease_ ? renew_kept() : renew_by_token(false, deadline, interrupt);
}

Result<Renewal> LocalSession::renew_kept() {
  KLOCK_TRY(current, place_.file->is_current());
  auto stop = read_order();
  if (!current || (stop && stop->removed)) {
    Gone gone;
    if (stop && stop->removed) gone.removed = std::move(stop->request);
    return gone;
  }
  Renewed renewed;
  if (joined_) {
    const auto record = read_hold(*place_.file, seat_);
    if (record && record->id == *joined_)
      renewed.deadline = detached_until(*place_.file, *record, seat_).value_or(k_never);
  }
  if (stop) {
    (stop->request.released ? release_reported_ : stop_reported_) = true;
    renewed.stop = std::move(stop->request);
  }
  return renewed;
}

// The order that is meant for us.
std::optional<StopRecord> LocalSession::read_order() const {
  if (joined_) return read_order_to_joined(*place_.file, *joined_, seat_);
  auto stop = read_stop(*place_.file, claim_.token.id(), seat_);
  if (stop && stop->request.released) stop->request = {{}, {}, true};
  return stop;
}

// Perhaps the script of a run that has joined one asks.
Result<Renewal> LocalSession::confirm_without_hold(const LockFile& file) const {
  KLOCK_TRY(joined, find_joined(file, claim_.token));
  if (joined) {
    Renewed renewed{joined->until.value_or(k_never)};
    renewed.joined = true;
    if (auto stop = read_order_to_joined(file, joined->record.id, joined->seat))
      renewed.stop = std::move(stop->request);
    return renewed;
  }
  KLOCK_TRY(kind, file.hold_kind());
  if (kind == ByteLock::exclusive) return NotMine{to_holder(read_hold(file)), std::nullopt};
  return Gone{};
}

// A hold with a process needs no renewal, whoever asks.
Result<Renewal> LocalSession::renew_by_token(bool extend, Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(file, LockFile::open(path_, extend ? LockFile::Open::existing : LockFile::Open::look));
  if (!file) return Gone{};
  KLOCK_TRY(hold, find_hold(*file, claim_.token));
  if (!hold) return confirm_without_hold(*file);
  if (!hold->until) {
    Renewed renewed;
    if (auto stop = read_stop(*file, claim_.token.id(), hold->seat)) renewed.stop = std::move(stop->request);
    return renewed;
  }
  if (!extend) return Renewed{.deadline = *hold->until, .since = Instant(Duration(hold->record.acquired_ns))};
  return extend_detached(*file, *hold, deadline, interrupt);
}

Result<Renewal> LocalSession::extend_detached(LockFile& file, const FoundHold& hold, Instant deadline,
                                              Interrupt interrupt) {
  const auto extend_to = [&](Instant until) -> Result<Renewal> {
    HoldRecord record = hold.record;
    reserve(record, until);
    KLOCK_TRY(renewed, rewrite(file, hold, deadline, interrupt, record));
    if (!renewed) return Gone{};
    if (until < *hold.until) file.touch();  // who sleeps until the end that was
    return Renewed{until};
  };
  const Instant until = BootClock::now() + claim_.ttl;
  KLOCK_TRY(renewal, extend_to(until));
  // Runs that have joined rely on the end that they found. Only now: whoever joins from here on finds ours.
  KLOCK_TRY(joined, file.is_joined(hold.seat));
  return joined && until < *hold.until ? extend_to(*hold.until) : renewal;
}

// Puts `record` in the place of that of a detached hold. Under `hold`, as others write it only there. False:
// the hold is over. Errors: system, if others keep us from it until the deadline.
Result<bool> LocalSession::rewrite(LockFile& file, const FoundHold& hold, Instant deadline,
                                   Interrupt interrupt, const HoldRecord& record) {
  for (;;) {
    KLOCK_TRY(taken, hold.seat == k_alone ? file.try_hold() : file.try_share());
    if (taken) break;
    KLOCK_TRY(still, find_hold(file, claim_.token));
    if (!still) return false;
    if (BootClock::now() >= deadline ||
        wait_ready(-1, 0, BootClock::now() + k_first_look, interrupt) == Ready::interrupted)
      return failure(ErrorKind::system, file.path() + " is being changed by another process");
  }
  const auto change = [&]() -> Result<bool> {
    KLOCK_TRY(still, find_hold(file, claim_.token));
    KLOCK_TRY(current, file.is_current());
    if (!still || !current) return false;
    KLOCK_CHECK(write_hold(file, record, hold.seat));
    return true;
  };
  auto changed = change();
  file.drop_hold();
  return changed;
}

Result<Released> LocalSession::release(Instant deadline, Interrupt interrupt) {
  if (lease_) return end_hold();
  if (place_.file) {
    withdraw(deadline);
    return Released::gone;
  }
  return release_by_token(deadline, interrupt);
}

Result<Released> LocalSession::complete(Instant deadline, Interrupt interrupt) {
  Status marked;
  if (lease_ && claim_.once) {
    KLOCK_TRY(renewal, renew_kept());
    if (std::holds_alternative<Renewed>(renewal))
      marked = markers_.put(claim_.lock.key, *claim_.once, claim_.who);
  }
  auto released = release(deadline, interrupt);
  if (!marked) return tl::unexpected(std::move(marked).error());
  return released;
}

// The record tells it from now on, as it may outlive us.
Status LocalSession::count_min_hold(bool counts) {
  if (!lease_ || joined_ || claim_.min_hold == Duration::zero()) return {};
  reserve(record_, counts ? lease_->acquired_at + claim_.min_hold : Instant{});
  return write_hold(*place_.file, record_, seat_);
}

Result<Released> LocalSession::end_hold() {
  const std::shared_ptr<LockFile> file = place_.file;
  const bool current = file->is_current().value_or(false);
  const bool cooling = !joined_ && reserved_until(*file, record_, seat_);
  bool closing = false;
  if (current && alone() && !joined_) {
    const bool closed = !cooling && file->try_close().value_or(false);
    // Of a slot whoever takes it next does that: nobody else touches its byte.
    const bool kept = note_left(*file, k_alone).value_or(true);
    closing = closed && !kept;
    stays_ = kept;
  }
  // A file that cannot be removed is no more than litter.
  if (closing) (void)file->unlink_now();
  lease_.reset();
  joined_.reset();
  leave(place_);
  if (claim_.mode == Mode::slots) file->touch();
  if (current && !cooling && !closing) tidy_up(path_);
  // Our own file stays for the cooldown: whoever does this has left some before.
  if (cooling) sweep_all(*directory_);
  return current ? Released::done : Released::gone;
}

// The process that keeps it may have a command to stop first.
Result<Released> LocalSession::ask_to_release(LockFile& file, Seat seat, Instant deadline,
                                              Interrupt interrupt) const {
  const std::string id = claim_.token.id();
  StopRecord order = read_stop(file, id, seat).value_or(StopRecord{id, {}});
  order.request.released = true;
  KLOCK_CHECK(write_stop(file, order, seat));
  file.touch();
  for (auto pause = k_first_look;; pause = std::min(2 * pause, k_longest_look)) {
    const Instant next = std::min(deadline, BootClock::now() + pause);
    if (wait_ready(-1, 0, next, interrupt) == Ready::interrupted) return Released::interrupted;
    KLOCK_TRY(still, find_hold(file, claim_.token));
    if (!still) return Released::done;
    if (BootClock::now() >= deadline)
      return failure(ErrorKind::system, "the process that keeps it does not give it up");
  }
}

// Of a detached hold the record is all. Any other is kept by a process: one that lives is asked to give it
// up; or it has just ended with the last copy of its descriptor (the guard's last will).
Result<Released> LocalSession::release_by_token(Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(file, LockFile::open(path_, LockFile::Open::existing));
  if (!file) return Released::gone;
  KLOCK_TRY(hold, find_hold(*file, claim_.token));
  if (hold && hold->until) {
    HoldRecord ended = hold->record;
    reserve(ended, Instant{});
    ended.left = true;
    KLOCK_TRY(written, rewrite(*file, *hold, deadline, interrupt, ended));
    file->touch();
    file.reset();
    tidy_up(path_);
    return written ? Released::done : Released::gone;
  }
  // The last copy of its descriptor is just being closed.
  if (hold && !claim_.by_token) return Released::done;
  if (hold) return ask_to_release(*file, hold->seat, deadline, interrupt);
  KLOCK_TRY(kind, file->hold_kind());
  const auto record = read_hold(*file);
  const bool ours = record && record->id == claim_.token.id() && !claim_.by_token;
  if (claim_.mode == Mode::slots) file->touch();
  file.reset();
  tidy_up(path_);
  if (ours) return Released::done;
  return kind == ByteLock::exclusive ? Released::not_mine : Released::gone;
}

}  // namespace klock
