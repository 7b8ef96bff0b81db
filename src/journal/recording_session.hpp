// SPDX-License-Identifier: MIT
#pragma once

#include "journal/recorder.hpp"

#include <memory>
#include <optional>
#include <string>

namespace klock {

// A session of the recorder's store that notes what becomes of its claim. See record_events().
class RecordingSession final : public LockSession {
 public:
  RecordingSession(std::shared_ptr<const Recorder> recorder, Claim claim)
      : recorder_(std::move(recorder)), claim_(claim), inner_(recorder_->store().session(std::move(claim))) {}

  void begin(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Wake> await_news(Instant until, Interrupt interrupt) override;
  void withdraw(Instant deadline) override;
  Result<Renewal> renew(Instant deadline, Interrupt interrupt) override;
  Result<Renewal> confirm(Instant deadline, Interrupt interrupt) override;
  Result<Released> release(Instant deadline, Interrupt interrupt) override;
  Result<Released> complete(Instant deadline, Interrupt interrupt) override;
  Status count_min_hold(bool counts) override { return inner_->count_min_hold(counts); }
  void heed_start() override;
  void explain_end(EventKind kind, std::string reason) override;
  void note_lost(const std::string& reason) override;
  int hold_fd() const override { return inner_->hold_fd(); }

 private:
  Event event(EventKind kind) const;
  void begin_hold(const Lease& lease);
  void tell_start();
  void note_end(EventKind kind, Recorder::To to = Recorder::To::all);
  void note_no_lock(EventKind kind);
  void heed_renewal(const Renewal& renewal);
  void note_loss(std::optional<StopRequest> order, const char* reason);
  bool is_unattended(Instant deadline, Interrupt interrupt);
  bool is_last_will() const;
  bool has_begun(Instant deadline, Interrupt interrupt) const;
  std::optional<Holder> joined_hold(Instant deadline, Interrupt interrupt) const;
  void note_end_of_joined(const Holder& hold) const;
  void heed_release(Released released, bool unattended, Instant deadline, Interrupt interrupt);

  const std::shared_ptr<const Recorder> recorder_;
  const Claim claim_;
  const std::unique_ptr<LockSession> inner_;
  bool tried_ = false;  // else whatever hold our token has is known by the token alone
  std::optional<Instant> waiting_since_;
  std::optional<Lease> lease_;  // our own hold, until its end has been noted
  std::optional<Event> start_;  // not noted yet, as the command comes first
  Instant confirmed_at_{};
  std::string joined_id_;         // of the hold that we have joined
  std::int64_t ends_at_us_ = 0;   // the next one may begin before we have told of the end; 0: not yet
  std::optional<Instant> since_;  // of a hold that is known by its token
  std::optional<StopRequest> order_;
  EventKind end_kind_ = EventKind::gave_up;
  std::string reason_;
};

}  // namespace klock
