// SPDX-License-Identifier: MIT
#include "journal/recording_session.hpp"

#include "lease/claim_event.hpp"

#include <algorithm>
#include <utility>

namespace klock {
namespace {

Milliseconds since(Instant then) {
  return std::chrono::floor<Milliseconds>(BootClock::now() - then);
}

}  // namespace

Event RecordingSession::event(EventKind kind) const {
  Event event = event_of(kind, claim_);
  if (ends_at_us_ != 0) event.wall_us = ends_at_us_;
  event.fence = lease_ ? lease_->fence : 0;
  return event;
}

void RecordingSession::note_no_lock(EventKind kind) {
  Event end = event(kind);
  end.waited = waiting_since_ ? since(*std::exchange(waiting_since_, std::nullopt)) : Milliseconds(0);
  if (kind != EventKind::skipped) end.reason = reason_;
  static_cast<void>(recorder_->note(end));
}

void RecordingSession::begin(bool enqueue, Instant deadline, Interrupt interrupt) {
  tried_ = true;
  inner_->begin(enqueue, deadline, interrupt);
}

Result<Attempt> RecordingSession::attempt(bool enqueue, Instant deadline, Interrupt interrupt) {
  tried_ = true;
  auto attempt = inner_->attempt(enqueue, deadline, interrupt);
  if (!attempt || lease_) return attempt;
  if (const auto* joined = std::get_if<Lease>(&*attempt); joined && joined->joined)
    joined_id_ = joined->joined_id;
  if (const auto* lease = std::get_if<Lease>(&*attempt); lease && !lease->joined) {
    begin_hold(*lease);
  } else if (std::holds_alternative<Completed>(*attempt)) {
    note_no_lock(EventKind::skipped);
  } else if (const auto* busy = std::get_if<Busy>(&*attempt)) {
    if (!enqueue || busy->full) {
      note_no_lock(EventKind::timed_out);
    } else if (!waiting_since_) {
      waiting_since_ = BootClock::now();
      static_cast<void>(recorder_->note(event(EventKind::waiting)));
    }
  }
  return attempt;
}

void RecordingSession::begin_hold(const Lease& lease) {
  lease_ = lease;
  confirmed_at_ = BootClock::now();
  start_ = event(EventKind::acquired);
  if (recorder_->store().has_leases() || claim_.detached)
    start_->ttl = std::chrono::floor<Milliseconds>(claim_.ttl);
  start_->waited = waiting_since_ ? since(*std::exchange(waiting_since_, std::nullopt)) : Milliseconds(0);
  if (claim_.for_script) tell_start();  // we start nothing
}

// Before anything else is told of the hold.
void RecordingSession::tell_start() {
  if (start_) static_cast<void>(recorder_->note(*start_));
  start_.reset();
}

void RecordingSession::heed_start() {
  tell_start();
  inner_->heed_start();
}

Result<Wake> RecordingSession::await_news(Instant until, Interrupt interrupt) {
  tell_start();
  return inner_->await_news(until, interrupt);
}

void RecordingSession::explain_end(EventKind kind, std::string reason) {
  end_kind_ = kind;
  reason_ = reason;
  inner_->explain_end(kind, std::move(reason));
}

void RecordingSession::withdraw(Instant deadline) {
  inner_->withdraw(deadline);
  if (waiting_since_) note_no_lock(end_kind_);
}

void RecordingSession::note_end(EventKind kind, Recorder::To to) {
  if (!lease_) return;
  tell_start();
  Event end = event(kind);
  end.held = since(lease_->acquired_at);
  end.reason = reason_;
  if (order_ && kind == EventKind::forced) {
    end.by = order_->by;
    if (!order_->reason.empty()) end.reason = order_->reason;
  }
  lease_.reset();
  static_cast<void>(recorder_->note(end, to));
}

// What was removed was told in the store's log by whoever did it.
void RecordingSession::note_loss(std::optional<StopRequest> order, const char* reason) {
  order_ = std::move(order);
  reason_ = reason;
  if (order_) return note_end(EventKind::forced, Recorder::To::audit_file);
  note_end(EventKind::lost);
}

void RecordingSession::heed_renewal(const Renewal& renewal) {
  if (const auto* asked = std::get_if<Renewed>(&renewal); asked && asked->stop && !asked->stop->released)
    order_ = asked->stop;
  if (!lease_) return;
  if (const auto* other = std::get_if<NotMine>(&renewal)) note_loss(other->removed, "somebody else holds it");
  if (const auto* gone = std::get_if<Gone>(&renewal))
    note_loss(gone->removed, "nothing is held with its token");
  const auto* renewed = std::get_if<Renewed>(&renewal);
  if (renewed == nullptr) return;
  const Instant now = BootClock::now();
  const Duration gap = now - std::exchange(confirmed_at_, now);
  const bool late = recorder_->store().has_leases() && gap > claim_.ttl / 2;
  if (!renewed->reclaimed && !late) return;
  Event trouble = event(renewed->reclaimed ? EventKind::reclaimed : EventKind::renewed_late);
  trouble.late = std::chrono::floor<Milliseconds>(gap);
  static_cast<void>(recorder_->note(trouble));
}

Result<Renewal> RecordingSession::renew(Instant deadline, Interrupt interrupt) {
  tell_start();
  auto renewal = inner_->renew(deadline, interrupt);
  if (renewal) heed_renewal(*renewal);
  return renewal;
}

Result<Renewal> RecordingSession::confirm(Instant deadline, Interrupt interrupt) {
  return inner_->confirm(deadline, interrupt);
}

// Whether a hold whose token we have been given is kept by no process that would tell of its end. (A store
// that notes events itself need not be asked.)
bool RecordingSession::is_unattended(Instant deadline, Interrupt interrupt) {
  if (tried_) return false;
  if (is_last_will()) return true;
  if (recorder_->store().notes_events()) return false;
  const auto renewal = inner_->confirm(deadline, interrupt);
  const auto* found = renewal ? std::get_if<Renewed>(&*renewal) : nullptr;
  if (found == nullptr || found->joined || found->deadline == k_never) return false;
  since_ = found->since;
  return true;
}

// Of the guard.
bool RecordingSession::is_last_will() const {
  return !tried_ && !claim_.by_token;
}

// Who was killed may not have told of the hold yet: no end without a beginning. That was not long ago; where
// the log is not to be read it is told.
bool RecordingSession::has_begun(Instant deadline, Interrupt interrupt) const {
  if (recorder_->store().notes_events()) return true;
  const auto page = recorder_->store().events({}, deadline, interrupt);
  if (!page) return true;
  const std::string id = claim_.token.id();
  return std::any_of(page->events.begin(), page->events.end(), [&](const Event& event) {
    return event.kind == EventKind::acquired && event.id == id && event.lock.key == claim_.lock.key;
  });
}

// The hold that we have joined, as long as it is there, in a store that does not note events itself.
std::optional<Holder> RecordingSession::joined_hold(Instant deadline, Interrupt interrupt) const {
  if (joined_id_.empty() || recorder_->store().notes_events()) return std::nullopt;
  auto state = recorder_->store().inspect(claim_.lock, deadline, interrupt);
  if (!state) return std::nullopt;
  for (Holder& holder : state->holders)
    if (holder.id == joined_id_) return std::move(holder);
  return std::nullopt;
}

// Its holder has left it to those who had joined it, and we were the last of them.
void RecordingSession::note_end_of_joined(const Holder& hold) const {
  Event end = event(EventKind::released);
  end.id = hold.id;
  end.fence = hold.fence;
  end.who = hold.who;
  end.held = hold.held;
  end.reason = "the last run that had joined it ended";
  if (order_ && end_kind_ != EventKind::released) {
    end.kind = EventKind::forced;
    end.by = order_->by;
    end.reason = order_->reason;
  }
  static_cast<void>(recorder_->note(end));
}

void RecordingSession::heed_release(Released released, bool unattended, Instant deadline,
                                    Interrupt interrupt) {
  if (released == Released::interrupted) return;
  if (inner_->stays()) return lease_.reset();
  if (released != Released::done) return note_end(EventKind::lost);
  if (lease_)
    return note_end(order_ && end_kind_ != EventKind::released ? EventKind::forced : EventKind::released);
  // The log is read for what has ended alone: many killed waiters would keep those who live from their turn.
  if (!unattended || (is_last_will() && !has_begun(deadline, interrupt))) return;
  Event end = event(EventKind::released);
  if (since_) end.held = since(*since_);
  end.unrenewed = claim_.by_token;
  end.reason = reason_;
  static_cast<void>(recorder_->note(end));
}

Result<Released> RecordingSession::release(Instant deadline, Interrupt interrupt) {
  tell_start();
  const bool unattended = is_unattended(deadline, interrupt);
  const auto joined = joined_hold(deadline, interrupt);
  ends_at_us_ = wall_us();
  auto released = inner_->release(deadline, interrupt);
  if (joined && released && !joined_hold(deadline, interrupt)) note_end_of_joined(*joined);
  if (released) heed_release(*released, unattended, deadline, interrupt);
  return released;
}

Result<Released> RecordingSession::complete(Instant deadline, Interrupt interrupt) {
  tell_start();
  ends_at_us_ = wall_us();
  auto released = inner_->complete(deadline, interrupt);
  if (released) heed_release(*released, false, deadline, interrupt);
  return released;
}

void RecordingSession::note_lost(const std::string& reason) {
  inner_->note_lost(reason);
  reason_ = reason;
  order_.reset();
  note_end(EventKind::lost);
}

}  // namespace klock
