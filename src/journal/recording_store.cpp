// SPDX-License-Identifier: MIT
#include "journal/recording_store.hpp"

#include "journal/audit_file.hpp"
#include "journal/recording_session.hpp"

#include <utility>

namespace klock {
namespace {

class RecordingStore final : public LockStore {
 public:
  explicit RecordingStore(std::shared_ptr<const Recorder> recorder) : recorder_(std::move(recorder)) {}

  std::string describe() const override { return inner().describe(); }
  bool has_leases() const override { return inner().has_leases(); }
  Status accepts(const Claim& claim) const override { return inner().accepts(claim); }
  std::unique_ptr<LockSession> session(Claim claim) override {
    return std::make_unique<RecordingSession>(recorder_, std::move(claim));
  }
  Result<LockState> inspect(const LockName& lock, Instant deadline, Interrupt interrupt) override {
    return inner().inspect(lock, deadline, interrupt);
  }
  Result<std::vector<LockState>> list(const std::string& pattern, Instant deadline,
                                      Interrupt interrupt) override {
    return inner().list(pattern, deadline, interrupt);
  }
  Result<Eviction> ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                            Instant deadline) override;
  Result<Eviction> remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                          Instant deadline) override;
  Result<std::optional<Marker>> marker(const LockName& lock, const std::string& key,
                                       Instant deadline) override {
    return inner().marker(lock, key, deadline);
  }
  Result<bool> clear_marker(const LockName& lock, const std::string& key, Instant deadline) override {
    return inner().clear_marker(lock, key, deadline);
  }
  Result<std::vector<Finding>> examine(Duration ttl, Instant deadline, Interrupt interrupt) override {
    return inner().examine(ttl, deadline, interrupt);
  }
  Status wake_others(const LockName& lock, const Holder& removed, Instant deadline) override {
    return inner().wake_others(lock, removed, deadline);
  }
  bool notes_events() const override { return true; }
  // A store that notes events itself is told of those that the audit file has already.
  Status note(const Event& event, Instant deadline, Interrupt interrupt) override {
    return inner().notes_events() ? inner().note(event, deadline, interrupt) : recorder_->note(event);
  }
  Result<EventPage> events(const EventQuery& query, Instant deadline, Interrupt interrupt) override {
    return inner().events(query, deadline, interrupt);
  }
  Result<std::vector<GroupStatistics>> statistics(Instant deadline, Interrupt interrupt) override {
    return inner().statistics(deadline, interrupt);
  }

 private:
  LockStore& inner() const { return recorder_->store(); }
  void note_forced(const LockName& lock, const Holder& shown, const StopRequest& request,
                   Recorder::To to) const;

  const std::shared_ptr<const Recorder> recorder_;
};

void RecordingStore::note_forced(const LockName& lock, const Holder& shown, const StopRequest& request,
                                 Recorder::To to) const {
  Event event;
  event.wall_us = wall_us();
  event.kind = EventKind::forced;
  event.lock = lock;
  event.id = shown.id;
  event.fence = shown.fence;
  event.who = shown.who;
  // The end of a hold in its cooldown was told when that began.
  if (!shown.cooldown) event.held = shown.held;
  event.unrenewed = shown.who.pid == 0;
  event.by = request.by;
  event.reason = request.reason;
  static_cast<void>(recorder_->note(event, to));
}

// A process that is asked tells the log of the end itself; where there is none, the hold is taken away.
Result<Eviction> RecordingStore::ask_stop(const LockName& lock, const Holder& shown,
                                          const StopRequest& request, Instant deadline) {
  auto eviction = inner().ask_stop(lock, shown, request, deadline);
  if (eviction && *eviction == Eviction::done)
    note_forced(lock, shown, request, shown.who.pid == 0 ? Recorder::To::all : Recorder::To::audit_file);
  return eviction;
}

Result<Eviction> RecordingStore::remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                                        Instant deadline) {
  auto eviction = inner().remove(lock, shown, request, deadline);
  if (eviction && *eviction == Eviction::done) note_forced(lock, shown, request, Recorder::To::all);
  return eviction;
}

}  // namespace

Status Recorder::note(const Event& event, To to) const {
  Status noted;
  if (to == To::all && !store_->notes_events()) noted = store_->note(event, k_never, {});
  if (!noted && journal_.log_failed) journal_.log_failed(noted.error());
  if (journal_.audit_file.empty()) return noted;
  if (const auto written = write_audit(journal_.audit_file, event, store_->describe());
      !written && journal_.audit_failed)
    journal_.audit_failed(written.error());
  return noted;
}

std::unique_ptr<LockStore> record_events(std::unique_ptr<LockStore> inner, Journal journal) {
  return std::make_unique<RecordingStore>(
      std::make_shared<const Recorder>(std::move(inner), std::move(journal)));
}

}  // namespace klock
