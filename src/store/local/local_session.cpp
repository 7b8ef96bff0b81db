// SPDX-License-Identifier: MIT
#include "store/local/local_session.hpp"

#include "store/local/survey.hpp"

#include <sched.h>

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;

// When neither a thread nor a descriptor is left to wait with.
constexpr milliseconds k_poll{50};
// How long a newcomer goes on looking while others close or remove the file.
constexpr int k_yields = 8;
constexpr int k_rounds = 40;
constexpr milliseconds k_pause{2};
// A slot is given up with a touch of the file, but not if its holder and its guard were both killed.
constexpr milliseconds k_slot_poll{250};

// False: interrupted.
bool pause_round(int round, Instant deadline, Interrupt interrupt) {
  if (round < k_yields) {
    sched_yield();
    return true;
  }
  const Instant until = std::min(deadline, BootClock::now() + k_pause);
  return wait_ready(-1, 0, until, interrupt) != Ready::interrupted;
}

// The hold that `ancestor` has, or has joined.
Result<std::optional<FoundHold>> find_covering(const LockFile& file, const Token& ancestor) {
  auto hold = find_hold(file, ancestor);
  return !hold || *hold ? std::move(hold) : find_joined(file, ancestor);
}

}  // namespace

LocalSession::LocalSession(std::shared_ptr<const LockDirectory> directory, Markers markers, Claim claim)
    : directory_(std::move(directory)),
      markers_(std::move(markers)),
      fence_clock_(directory_->path()),
      claim_(std::move(claim)),
      path_(directory_->file_path(claim_.lock.key)) {}

LocalSession::~LocalSession() {
  if (!lease_) leave(place_);
}

void LocalSession::leave(Place& place) {
  if (place.watch) place.watch->abandon();
  if (place.file) place.file->drop_all();
  place = Place{};
}

int LocalSession::hold_fd() const {
  return lease_ ? place_.file->fd() : -1;
}

Result<Attempt> LocalSession::attempt(bool enqueue, Instant deadline, Interrupt interrupt) {
  if (lease_) return *lease_;
  KLOCK_TRY(completed, is_completed());
  if (completed) return outcome();
  Result<Attempt> result = place_.ticket ? advance(deadline, interrupt) : enter(enqueue, deadline, interrupt);
  if (!enqueue && !lease_ && place_.ticket) withdraw(deadline);
  return result;
}

Result<bool> LocalSession::is_completed() {
  if (!claim_.once) return false;
  KLOCK_TRY(marker, markers_.find(claim_.lock.key, claim_.once->key));
  completed_ = std::move(marker);
  return completed_.has_value();
}

// Of Step::held or Step::completed.
Attempt LocalSession::outcome() {
  if (completed_) return Completed{*completed_};
  const Lease lease = *lease_;
  if (claim_.detached && !lease.joined) detach();
  return lease;
}

// The record keeps the lock from now on.
void LocalSession::detach() {
  lease_.reset();
  leave(place_);
  // Nobody may ever look at those that have run out meanwhile.
  sweep_all(*directory_);
}

// From outside: takes the lock, or a place in the queue.
Result<Attempt> LocalSession::enter(bool enqueue, Instant deadline, Interrupt interrupt) {
  for (int round = 0; round < k_rounds; ++round) {
    if (round > 0 && !pause_round(round, deadline, interrupt)) return Interrupted{};
    KLOCK_TRY(attempt, enter_once(enqueue, deadline, interrupt));
    if (attempt) return *std::move(attempt);
  }
  Busy unsettled;
  unsettled.look_again = BootClock::now() + k_poll;
  return unsettled;
}

// nullopt: the file or its directory is just going away.
Result<std::optional<Attempt>> LocalSession::enter_once(bool enqueue, Instant deadline, Interrupt interrupt) {
  KLOCK_CHECK(directory_->prepare());
  KLOCK_TRY(file, LockFile::open(path_, LockFile::Open::create, directory_->file_mode()));
  if (!file) return std::nullopt;
  auto step = join(*file);
  if (step && *step == Step::busy) step = try_newcomer(*file);
  if (!step) {
    file.reset();
    tidy_up(path_);
    return tl::unexpected(std::move(step).error());
  }
  return go_on(std::move(file), *step, enqueue, deadline, interrupt);
}

// After a newcomer's step.
Result<std::optional<Attempt>> LocalSession::go_on(std::shared_ptr<LockFile> file, Step step, bool enqueue,
                                                   Instant deadline, Interrupt interrupt) {
  if (step == Step::again) return std::nullopt;
  if (step == Step::held) {
    place_.file = std::move(file);
    return outcome();
  }
  if (step == Step::completed) {
    file.reset();
    tidy_up(path_);
    return outcome();
  }
  if (!enqueue) {
    KLOCK_TRY(busy, describe_busy(*file));
    return Attempt(std::move(busy));
  }
  KLOCK_TRY(full, queue_up(std::move(file)));
  if (full) return Attempt(*std::move(full));
  if (!place_.ticket) return std::nullopt;
  KLOCK_TRY(attempt, advance(deadline, interrupt));
  return std::optional<Attempt>(std::move(attempt));
}

// Takes the lock if nobody holds it or waits for it.
Result<LocalSession::Step> LocalSession::try_newcomer(LockFile& file) {
  KLOCK_TRY(engaged, file.is_engaged());
  if (engaged) {
    KLOCK_TRY(closing, file.is_closing());
    return closing ? Step::again : Step::busy;
  }
  KLOCK_TRY(held, take_hold(file));
  if (held) return confirm(file, std::nullopt);
  KLOCK_TRY(kind, file.hold_kind());
  return kind == ByteLock::shared ? Step::busy : Step::again;
}

// A hold that covers an ancestor covers us, unless ours asks for more. busy: there is none.
Result<LocalSession::Step> LocalSession::join(LockFile& file) {
  for (const Token& ancestor : claim_.ancestors) {
    KLOCK_TRY(step, join(file, ancestor));
    if (step != Step::busy) return step;
  }
  return Step::busy;
}

// A reader goes beside a hold that is not exclusive, past the queue: whoever waits there may wait for our
// ancestor. Others note themselves, so that the hold stays for them.
Result<LocalSession::Step> LocalSession::join(LockFile& file, const Token& ancestor) {
  KLOCK_TRY(hold, find_covering(file, ancestor));
  if (!hold) return Step::busy;
  const HoldRecord& record = hold->record;
  const bool beside = claim_.mode == Mode::shared && record.mode != Mode::exclusive;
  if (!beside && record.mode != Mode::exclusive && (alone() || record.mode == Mode::shared))
    return failure(ErrorKind::config,
                   "it is held as " + std::string(mode_name(record.mode)) +
                       " by a run around this one, which wants more",
                   "take it as " + std::string(mode_name(claim_.mode)) + " in the first place");
  if (!beside && record.mode == Mode::slots && record.slots != claim_.slots)
    return other_slots(record.slots, claim_.slots);
  KLOCK_TRY(noted, beside ? file.try_share() : file.try_join(hold->seat, joiner_of(claim_.token)));
  if (!noted) return Step::again;  // someone just looks whether all who have joined are gone
  // Only now, as seats.hpp tells.
  KLOCK_TRY(closing, file.is_closing());
  KLOCK_TRY(current, file.is_current());
  KLOCK_TRY(still, find_covering(file, ancestor));
  if (closing || !current || !still || still->record.id != record.id) {
    file.drop_all();
    return Step::again;
  }
  if (beside) {
    KLOCK_TRY(step, confirm(file, std::nullopt, true));
    return step == Step::held ? step : Step::busy;
  }
  seat_ = hold->seat;
  joined_ = record.id;
  lease_ = Lease{BootClock::now(), still->until.value_or(k_never), record.fence, true, record.id};
  return Step::held;
}

// Busy: there is a queue, and it is full. Nothing, and no ticket: the file is about to go, or gone.
Result<std::optional<Busy>> LocalSession::queue_up(std::shared_ptr<LockFile> file) {
  KLOCK_TRY(ticket, file->take_ticket());
  if (!ticket) return std::nullopt;
  const auto condition = file->condition();
  if (!condition || !condition->linked) {
    file->drop_all();
    if (!condition) return tl::unexpected(condition.error());
    return std::nullopt;
  }
  place_ = Place{};
  if (claim_.max_waiters) {
    // After we have a ticket: of two who come at once one is before the other.
    place_.ticket = *ticket;
    auto busy = describe_busy(*file);
    place_ = Place{};
    if (!busy || busy->ahead >= *claim_.max_waiters) {
      file->drop_all();
      if (!busy) return tl::unexpected(std::move(busy).error());
      busy->full = true;
      return *std::move(busy);
    }
  }
  place_.file = std::move(file);
  place_.ticket = *ticket;
  // For people's eyes only: a full disk must not keep us from waiting.
  (void)write_wait(*place_.file,
                   {*ticket, claim_.who, claim_.mode, BootClock::now().time_since_epoch().count()});
  return std::nullopt;
}

// In the queue: takes the lock if it is our turn, else goes to sleep on whoever is before us.
Result<Attempt> LocalSession::advance(Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(step, reach_hold());
  if (step == Step::held || step == Step::completed) return outcome();
  KLOCK_TRY(moving, must_move());
  if (moving) return move(deadline, interrupt);
  KLOCK_TRY(busy, describe_busy(*place_.file));
  const Instant now = BootClock::now();
  place_.cooldown = step == Step::cooldown;
  place_.no_slot = step == Step::no_slot;
  if (place_.watch) {
    busy.look_again = k_never;
  } else if (step == Step::blind) {
    busy.look_again = std::min(busy.look_again, now + k_poll);
  } else if (place_.no_slot) {
    busy.look_again = now + k_slot_poll;
  } else if (!place_.cooldown) {
    busy.look_again = now + k_pause;
  }
  return busy;
}

Result<LocalSession::Step> LocalSession::reach_hold() {
  LockFile& file = *place_.file;
  bool mine = false;
  if (std::exchange(place_.overtake, false)) {
    KLOCK_TRY(taken, take_hold(file));
    mine = taken;
    if (mine) mark_overtaken();
  }
  if (mine && place_.watch) {
    place_.watch->abandon();  // it sleeps on another's ticket: no byte of ours
    place_.watch.reset();
  }
  if (place_.watch) {
    if (!place_.watch->finished()) return Step::busy;
    mine = place_.watch->took_byte();
    const bool failed = place_.watch->failed();
    place_.watch.reset();
    if (failed) return Step::blind;
  }
  if (!mine) {
    KLOCK_TRY(before, file.last_ticket_before(*place_.ticket));
    if (before) {
      return sleep_on(LockFile::ticket_byte(*before), ByteWatch::For::learn);
    }
    KLOCK_TRY(taken, take_hold(file));
    if (!taken)
      return sleep_on(LockFile::hold_byte(), alone() ? ByteWatch::For::take : ByteWatch::For::share);
  }
  KLOCK_TRY(step, confirm(file, place_.ticket));
  if (step == Step::joined) return sleep_on(LockFile::join_bytes(), ByteWatch::For::learn);
  return step;
}

LocalSession::Step LocalSession::sleep_on(ByteRange byte, ByteWatch::For what) {
  place_.watch = ByteWatch::start(place_.file, byte, what);
  return place_.watch ? Step::busy : Step::blind;
}

// The kernel gave us `hold`: makes it a lease if the file still counts and nothing else is in the way; else
// gives it back.
Result<LocalSession::Step> LocalSession::confirm(LockFile& file, std::optional<Ticket> ticket, bool beside) {
  auto step = get_in(file, ticket, beside);
  if (step && *step == Step::held) return step;
  if (step && *step == Step::joined && alone()) (void)note_left(file, k_alone);
  lease_.reset();
  seat_ = k_alone;
  file.drop_hold();
  return step;
}

Result<LocalSession::Step> LocalSession::get_in(LockFile& file, std::optional<Ticket> ticket, bool beside) {
  if (ticket && alone()) KLOCK_CHECK(file.try_mark(*ticket));
  KLOCK_TRY(condition, file.condition());
  if (!condition.linked) return Step::again;
  const auto last = condition.size > 0 ? read_hold(file) : std::nullopt;
  if (last && reserved_until(file, *last)) return Step::cooldown;
  if (alone() && condition.size > 0 && !reserved_seats(file).empty()) return Step::cooldown;
  KLOCK_TRY(sat, sit_down(file));
  if (sat != Step::held) return sat;
  const auto before = alone() ? last : read_hold(file, seat_);
  KLOCK_CHECK(write_record(file, last));
  KLOCK_TRY(step, look_back(file, ticket || beside));
  if (step != Step::held) {
    (void)(before ? write_hold(file, *before, seat_) : clear_hold(file, seat_));
    return step;
  }
  if (ticket && !alone()) {
    file.drop_ticket(*ticket);
    place_.ticket.reset();
  }
  return Step::held;
}

// Before our record is written.
Result<LocalSession::Step> LocalSession::sit_down(LockFile& file) {
  KLOCK_TRY(joined, is_joined(file));
  if (joined) return Step::joined;
  if (!alone()) {
    KLOCK_TRY(seat, take_seat(file, claim_.mode, claim_.slots));
    if (!seat) return Step::no_slot;
    seat_ = *seat;
  }
  KLOCK_TRY(completed, is_completed());
  return completed ? Step::completed : Step::held;
}

// With our record written.
Result<LocalSession::Step> LocalSession::look_back(const LockFile& file, bool past_the_queue) {
  // Another has the right of way: an administrator who removes the last hold, or, for a newcomer, whoever
  // queued up while the last holder was still there. Only now, with our record written:
  // 1. the administrator locks `edit` and finds the last holder's record, and `hold` taken: by us  2. we
  // write our record  3. he unlinks the file. One who locks `edit` after this check finds our record.
  // So too a run that joins the last hold: it notes itself before it reads the record.
  KLOCK_TRY(contested, past_the_queue ? file.is_edited() : file.is_contested());
  if (contested) return Step::again;
  KLOCK_TRY(joined, is_joined(file));
  return joined ? Step::joined : Step::held;
}

// Whether runs keep a hold that ours would not go together with.
Result<bool> LocalSession::is_joined(const LockFile& file) const {
  if (alone()) return file.is_joined();
  KLOCK_TRY(joined, file.is_joined(k_alone));
  if (joined || claim_.mode == Mode::shared || seat_ == k_alone) return joined;
  return file.is_joined(seat_);
}

Status LocalSession::write_record(LockFile& file, const std::optional<HoldRecord>& last) {
  const Instant now = BootClock::now();
  HoldRecord record;
  record.id = claim_.token.id();
  record.proof = proof_of(claim_.token);
  record.name = claim_.lock.name;
  record.key = claim_.lock.key;
  record.who = claim_.who;
  record.mode = claim_.mode;
  record.slots = claim_.slots;
  record.since_wall_ms = wall_ms();
  record.acquired_ns = now.time_since_epoch().count();
  KLOCK_TRY(fence, next_fence(file, claim_.mode, last ? last->fence : 0, fence_clock_));
  record.fence = fence;
  record.detached = claim_.detached;
  const Instant end = claim_.detached ? now + claim_.ttl : k_never;
  if (claim_.detached) reserve(record, end);
  KLOCK_CHECK(write_hold(file, record, seat_));
  lease_ = Lease{now, end, record.fence};
  record_ = std::move(record);
  return {};
}

Result<Busy> LocalSession::describe_busy(LockFile& file) {
  Busy busy;
  KLOCK_TRY(kind, file.hold_kind());
  if (kind == ByteLock::exclusive) {
    if (const auto record = read_hold(file)) busy.holder = to_holder(record);
  } else if (const auto reserved = reservation(file, claim_.mode)) {
    busy.holder = to_holder(reserved->record, reserved->until);
    busy.cooldown = !kind && !reserved->record.detached;
    busy.look_again = reserved->until;
  }
  KLOCK_TRY(kept, kept_seats(file));
  if (kind != ByteLock::exclusive && !kept.empty()) {
    busy.cooldown = false;
    if (const auto record = read_hold(file, kept.front())) busy.holder = to_holder(record);
  }
  if (!busy.holder && claim_.mode == Mode::slots)
    if (const auto reserved = reserved_seats(file); !reserved.empty())
      busy.holder = to_holder(reserved.front().record, reserved.front().until);
  const Ticket mine = place_.ticket.value_or(LockFile::k_ticket_limit);
  KLOCK_TRY(before, file.tickets_before(mine));
  KLOCK_TRY(holder, file.holder_ticket());
  busy.ahead = before.size();
  if (holder && std::binary_search(before.begin(), before.end(), *holder)) --busy.ahead;
  place_.ahead = before.size();
  return busy;
}

// The file was taken away, and nobody who waits in it came before us: time to go where newcomers go.
Result<bool> LocalSession::must_move() {
  KLOCK_TRY(current, place_.file->is_current());
  if (current) return false;
  KLOCK_TRY(before, place_.file->last_ticket_before(*place_.ticket));
  if (!before) return true;
  KLOCK_TRY(holder, place_.file->holder_ticket());
  return holder == before;
}

// 1. queue up in the new file  2. leave the old one: that wakes the next, who comes after us. So the order
// stands.
Result<Attempt> LocalSession::move(Instant deadline, Interrupt interrupt) {
  Place old = std::exchange(place_, Place{});
  Result<Attempt> result = enter(true, deadline, interrupt);
  leave(old);
  return result;
}

void LocalSession::withdraw(Instant) {
  if (lease_ || !place_.file) return;
  const std::shared_ptr<LockFile> file = place_.file;
  leave(place_);
  // The holder may have given up removing the file because of our ticket: the last to leave removes it.
  tidy_up(path_);
}

}  // namespace klock
