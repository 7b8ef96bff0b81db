// SPDX-License-Identifier: MIT
#include "commands/locks.hpp"

#include "support/fake_session.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>

namespace klock {
namespace {

using namespace std::chrono_literals;
using test::FakeSession;

constexpr Duration k_ttl = 200ms;

// Sessions answer by the scripts of their lock; those that Locks gave back are kept for their logs.
class FakeStore : public LockStore {
 public:
  using Prepare = std::function<void(FakeSession&, int made)>;  // `made`: how many there were before

  std::string describe() const override { return "fake:"; }
  bool has_leases() const override { return true; }
  std::unique_ptr<LockSession> session(Claim claim) override {
    auto session = std::make_unique<FakeSession>();
    session->wakes = {test::no_news};
    session->renewals = {[](Instant, Interrupt) { return Renewed{.deadline = BootClock::now() + k_ttl}; }};
    session->attempts = {[](Instant, Interrupt) {
      return Lease{BootClock::now(), BootClock::now() + k_ttl};
    }};
    if (prepare[claim.lock.key]) prepare[claim.lock.key](*session, made[claim.lock.key]);
    ++made[claim.lock.key];
    order.push_back(claim.lock.key);
    return session;
  }
  Result<LockState> inspect(const LockName&, Instant, Interrupt) override { return LockState{}; }
  Result<std::vector<LockState>> list(const std::string&, Instant, Interrupt) override {
    return std::vector<LockState>{};
  }
  Result<Eviction> ask_stop(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return Eviction::gone;
  }
  Result<std::optional<Marker>> marker(const LockName&, const std::string&, Instant) override {
    return std::nullopt;
  }
  Result<bool> clear_marker(const LockName&, const std::string&, Instant) override { return false; }
  Result<Eviction> remove(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return Eviction::gone;
  }
  Result<std::vector<GroupStatistics>> statistics(Instant, Interrupt) override {
    return std::vector<GroupStatistics>{};
  }
  Status note(const Event&, Instant, Interrupt) override { return {}; }
  Result<EventPage> events(const EventQuery&, Instant, Interrupt) override { return EventPage{}; }
  Result<std::vector<Finding>> examine(Duration, Instant, Interrupt) override {
    return std::vector<Finding>{};
  }

  std::map<std::string, Prepare> prepare;
  std::map<std::string, int> made;
  std::vector<std::string> order;
};

Result<Attempt> busy(Instant, Interrupt) {
  return Busy{};
}

// It looks again and again.
void is_free_when(FakeSession& session, const std::function<bool()>& ready) {
  session.wakes = {[](Instant, Interrupt interrupt) {
    return wait_ready(-1, 0, BootClock::now() + 10ms, interrupt) == Ready::interrupted ? Wake::interrupted
                                                                                       : Wake::news;
  }};
  session.attempts = {[ready](Instant, Interrupt) -> Result<Attempt> {
    if (!ready()) return Busy{};
    return Lease{BootClock::now(), BootClock::now() + k_ttl};
  }};
}

class LocksTest : public testing::Test {
 protected:
  ~LocksTest() override { close(signals); }

  Locks make(const std::vector<std::string>& keys) {
    std::vector<Claim> claims;
    for (const std::string& key : keys) {
      Claim claim;
      claim.lock = {"name of " + key, key};
      claim.ttl = k_ttl;
      claims.push_back(claim);
    }
    return {store, claims};
  }
  Result<Acquisition> acquire(Locks& locks, Duration limit = 5s) {
    WaitPolicy policy;
    policy.limit = BootClock::now() + limit;
    policy.first_contact = 5s;
    return locks.acquire(policy, Interrupt{signals}, [this](const std::string& name, const Busy&) {
      waited_for.push_back(name);
      return k_never;
    });
  }

  FakeStore store;
  std::vector<std::string> waited_for;
  const int signals = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

TEST_F(LocksTest, AreTakenInTheOrderOfTheirKeys) {
  Locks locks = make({"m", "z", "a"});
  EXPECT_EQ(store.order, (std::vector<std::string>{"a", "m", "z"}));
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Lease>(*got));
  EXPECT_TRUE(locks.is_first(locks.held()[1]));
  EXPECT_EQ(std::get<Lease>(*got).acquired_at, locks.held()[1].lease.acquired_at);
  EXPECT_EQ(locks.deadline(), locks.held()[0].lease.deadline);
}

TEST_F(LocksTest, ABusyOneGivesTheOthersBack) {
  store.prepare["b"] = [](FakeSession& session, int) { session.attempts = {busy}; };
  Locks locks = make({"b", "a", "c"});
  const auto got = acquire(locks, 700ms);
  ASSERT_TRUE(got && std::holds_alternative<Busy>(*got));
  EXPECT_EQ(locks.last_name(), "name of b");
  EXPECT_EQ(waited_for, (std::vector<std::string>{"name of b"}));
  EXPECT_EQ(store.made["a"], 2) << "a fresh session after the release";
  EXPECT_EQ(store.made["c"], 1);
}

TEST_F(LocksTest, WhatIsHeldIsRenewedWhileWeWait) {
  std::atomic<int> renewed = 0;
  store.prepare["a"] = [&](FakeSession& session, int) {
    session.renewals = {[&](Instant, Interrupt) {
      ++renewed;
      return Renewed{.deadline = BootClock::now() + k_ttl};
    }};
  };
  store.prepare["b"] = [&](FakeSession& session, int) {
    is_free_when(session, [&] { return renewed >= 5; });
  };
  Locks locks = make({"a", "b"});
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Lease>(*got));
  EXPECT_GE(renewed, 5);
  EXPECT_GT(locks.held()[0].lease.deadline, BootClock::now());
}

TEST_F(LocksTest, ALossWhileWeWaitStartsOver) {
  store.prepare["a"] = [](FakeSession& session, int made) {
    if (made == 0) session.renewals = {[](Instant, Interrupt) { return Gone{}; }};
  };
  store.prepare["b"] = [this](FakeSession& session, int) {
    session.attempts = {[this](Instant, Interrupt) -> Result<Attempt> {
      if (store.made["a"] < 2) return Busy{};
      return Lease{BootClock::now(), BootClock::now() + k_ttl};
    }};
  };
  Locks locks = make({"a", "b"});
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Lease>(*got));
  EXPECT_EQ(store.made["a"], 2);
}

TEST_F(LocksTest, ALeaseThatEndsWhileTheStoreIsSlowStartsOver) {
  store.prepare["b"] = [](FakeSession& session, int made) {
    if (made > 0) return;
    session.attempts = {[](Instant, Interrupt) {
      poll(nullptr, 0, 300);
      return Lease{BootClock::now(), BootClock::now() + k_ttl};
    }};
  };
  Locks locks = make({"a", "b"});
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Lease>(*got));
  EXPECT_GE(store.made["a"], 2);
}

TEST_F(LocksTest, TroubleWithWhatIsHeldIsNoReasonToLeaveTheQueue) {
  std::atomic<int> renewed = 0;
  store.prepare["a"] = [&](FakeSession& session, int) {
    session.renewals = {[&](Instant, Interrupt) -> Result<Renewal> {
      if (++renewed % 2 == 0) return failure(ErrorKind::unreachable, "away");
      return Renewed{.deadline = BootClock::now() + 5s};
    }};
  };
  FakeSession* waiting = nullptr;
  store.prepare["b"] = [&](FakeSession& session, int) {
    waiting = &session;
    is_free_when(session, [&] { return renewed >= 5; });
  };
  Locks locks = make({"a", "b"});
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Lease>(*got));
  EXPECT_EQ(waiting->count("withdraw"), 0u);
}

TEST_F(LocksTest, ALossOnAndOnEndsAtTheLimit) {
  store.prepare["a"] = [](FakeSession& session, int) {
    session.renewals = {[](Instant, Interrupt) { return Gone{}; }};
  };
  store.prepare["b"] = [](FakeSession& session, int) { session.attempts = {busy}; };
  Locks locks = make({"a", "b"});
  const auto got = acquire(locks, 500ms);
  ASSERT_TRUE(got && std::holds_alternative<Busy>(*got));
  EXPECT_GT(store.made["a"], 2);
}

TEST_F(LocksTest, ASignalEndsTheWait) {
  store.prepare["b"] = [](FakeSession& session, int) { session.attempts = {busy}; };
  Locks locks = make({"a", "b"});
  eventfd_write(signals, 1);
  const auto got = acquire(locks);
  ASSERT_TRUE(got && std::holds_alternative<Interrupted>(*got));
}

TEST_F(LocksTest, AnErrorIsToldOfItsLock) {
  store.prepare["b"] = [](FakeSession& session, int) {
    session.attempts = {
        [](Instant, Interrupt) -> Result<Attempt> { return failure(ErrorKind::refused, "no"); }};
  };
  Locks locks = make({"a", "b"});
  EXPECT_FALSE(acquire(locks).has_value());
  EXPECT_EQ(locks.last_name(), "name of b");
  EXPECT_EQ(store.made["a"], 2);
}

}  // namespace
}  // namespace klock
