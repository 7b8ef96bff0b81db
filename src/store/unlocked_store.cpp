// SPDX-License-Identifier: MIT
#include "store/unlocked_store.hpp"

namespace klock {
namespace {

class UnlockedSession final : public LockSession {
 public:
  void begin(bool, Instant, Interrupt) override {}
  Result<Attempt> attempt(bool, Instant, Interrupt) override {
    granted_ = true;
    return Lease{.acquired_at = BootClock::now()};
  }
  Result<Wake> await_news(Instant until, Interrupt interrupt) override {
    return wait_ready(-1, 0, until, interrupt) == Ready::interrupted ? Wake::interrupted : Wake::timeout;
  }
  void withdraw(Instant) override {}
  Result<Renewal> renew(Instant, Interrupt) override { return state(); }
  Result<Renewal> confirm(Instant, Interrupt) override { return state(); }
  Result<Released> release(Instant, Interrupt) override { return Released::done; }
  Result<Released> complete(Instant, Interrupt) override { return Released::done; }
  Status count_min_hold(bool) override { return {}; }

 private:
  // By the token alone nothing is held.
  Renewal state() const { return granted_ ? Renewal(Renewed{}) : Renewal(Gone{}); }

  bool granted_ = false;
};

class UnlockedStore final : public LockStore {
 public:
  std::string describe() const override { return "without a store"; }
  bool has_leases() const override { return false; }
  std::unique_ptr<LockSession> session(Claim) override { return std::make_unique<UnlockedSession>(); }
  Result<LockState> inspect(const LockName& lock, Instant, Interrupt) override {
    LockState state;
    state.lock = lock;
    return state;
  }
  Result<std::vector<LockState>> list(const std::string&, Instant, Interrupt) override {
    return std::vector<LockState>{};
  }
  Result<Eviction> ask_stop(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return Eviction::gone;
  }
  Result<Eviction> remove(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return Eviction::gone;
  }
  Result<std::optional<Marker>> marker(const LockName&, const std::string&, Instant) override {
    return std::nullopt;
  }
  Result<bool> clear_marker(const LockName&, const std::string&, Instant) override { return false; }
  Status note(const Event&, Instant, Interrupt) override { return {}; }
  Result<EventPage> events(const EventQuery&, Instant, Interrupt) override { return EventPage{}; }
  Result<std::vector<GroupStatistics>> statistics(Instant, Interrupt) override {
    return std::vector<GroupStatistics>{};
  }
  Result<std::vector<Finding>> examine(Duration, Instant, Interrupt) override {
    return std::vector<Finding>{};
  }
};

}  // namespace

std::unique_ptr<LockStore> open_unlocked_store() {
  return std::make_unique<UnlockedStore>();
}

}  // namespace klock
