// SPDX-License-Identifier: MIT
#include "lease/acquirer.hpp"

#include "support/fake_session.hpp"
#include "util/fd.hpp"

#include <gtest/gtest.h>

#include <sys/eventfd.h>

namespace klock {
namespace {

using namespace std::chrono_literals;
using test::FakeSession;
using test::no_news;

const auto k_held = [](Instant, Interrupt) -> Result<Attempt> { return Lease{.fence = 7}; };
const auto k_away = [](Instant, Interrupt) -> Result<Attempt> {
  return failure(ErrorKind::unreachable, "away");
};
const auto k_busy = [](Instant, Interrupt) -> Result<Attempt> { return Busy{.ahead = 2}; };

WaitPolicy patient() {
  return {.first_contact = 1s, .reconnect = 200ms};
}

TEST(Acquirer, TakesAFreeLockAtOnce) {
  FakeSession session;
  session.attempts = {k_held};
  const auto got = acquire(session, patient(), {}, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<Lease>(*got).fence, 7u);
  EXPECT_EQ(session.calls(), std::vector<std::string>{"attempt"});
}

TEST(Acquirer, DoesNotWaitOrQueueWhenToldNotTo) {
  FakeSession session;
  session.attempts = {k_busy};
  auto policy = patient();
  policy.wait = false;
  const auto got = acquire(session, policy, {}, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<Busy>(*got).ahead, 2u);
  EXPECT_EQ(session.calls(), std::vector<std::string>{"attempt once"});
}

TEST(Acquirer, AttemptsAgainOnNews) {
  FakeSession session;
  session.attempts = {k_busy, k_held};
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return Wake::news; }};
  EXPECT_TRUE(std::holds_alternative<Lease>(*acquire(session, patient(), {}, {})));
  EXPECT_EQ(session.count("withdraw"), 0u);
}

TEST(Acquirer, LooksAgainWithoutNewsWhenTheStoreSaidSo) {
  FakeSession session;
  session.attempts = {
      [](Instant, Interrupt) -> Result<Attempt> { return Busy{.look_again = BootClock::now() + 10ms}; },
      k_held};
  session.wakes = {no_news};
  EXPECT_TRUE(std::holds_alternative<Lease>(*acquire(session, patient(), {}, {})));
}

TEST(Acquirer, KeepsTheWaitLimitAndLeavesTheQueue) {
  FakeSession session;
  session.attempts = {k_busy};
  session.wakes = {no_news};
  auto policy = patient();
  const auto start = BootClock::now();
  policy.limit = start + 150ms;
  const auto got = acquire(session, policy, {}, {});
  EXPECT_TRUE(std::holds_alternative<Busy>(*got));
  EXPECT_GE(BootClock::now(), policy.limit);
  EXPECT_LT(BootClock::now(), policy.limit + 100ms);
  EXPECT_EQ(session.calls().back(), "attempt once");
}

TEST(Acquirer, AtTheLimitTellsWhoHasItThenOrTakesItThen) {
  for (const bool becomes_free : {false, true}) {
    FakeSession session;
    session.attempts = {k_busy};
    session.attempts.push_back([=](Instant, Interrupt) -> Result<Attempt> {
      if (becomes_free) return Lease{};
      Busy later;
      later.ahead = 7;
      return later;
    });
    session.wakes = {no_news};
    auto policy = patient();
    policy.limit = BootClock::now() + 50ms;
    const auto got = acquire(session, policy, {}, {});
    ASSERT_TRUE(got);
    EXPECT_EQ(std::holds_alternative<Lease>(*got), becomes_free);
    if (!becomes_free) {
      EXPECT_EQ(std::get<Busy>(*got).ahead, 7u);
    }
  }
}

TEST(Acquirer, AStoreThatIsAwayAtTheLimitIsTakenLeaveOf) {
  FakeSession session;
  session.attempts = {k_busy, k_away};
  session.wakes = {no_news};
  auto policy = patient();
  policy.limit = BootClock::now() + 50ms;
  const auto got = acquire(session, policy, {}, {});
  ASSERT_TRUE(got);
  EXPECT_TRUE(std::holds_alternative<Busy>(*got));
  EXPECT_EQ(session.calls().back(), "withdraw");
}

TEST(Acquirer, GivesUpWhenInterruptedAndLeavesTheQueue) {
  const Fd interrupt(eventfd(1, EFD_CLOEXEC));
  FakeSession session;
  session.attempts = {k_busy};
  session.wakes = {no_news};
  EXPECT_TRUE(std::holds_alternative<Interrupted>(*acquire(session, patient(), {interrupt.get()}, {})));
  EXPECT_EQ(session.calls().back(), "withdraw");
}

TEST(Acquirer, AStoreThatNeverAnsweredIsUnreachable) {
  FakeSession session;
  session.attempts = {k_away};
  const auto got = acquire(session, patient(), {}, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unreachable);
  EXPECT_EQ(session.count("attempt"), 1u);
}

TEST(Acquirer, AQueuedWaiterLooksForAVanishedStore) {
  FakeSession session;
  session.attempts = {k_busy, k_away, k_away, k_held};
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return failure(ErrorKind::unreachable, "cut"); }};
  EXPECT_TRUE(std::holds_alternative<Lease>(*acquire(session, patient(), {}, {})));
  EXPECT_EQ(session.count("withdraw"), 0u);
}

TEST(Acquirer, AStoreThatIsToBeOutlastedIsWaitedFor) {
  FakeSession session;
  session.attempts = {k_away, k_away, k_held};
  auto policy = patient();
  policy.outlast = true;
  std::vector<std::string> told;
  policy.on_away = [&](const Error& error) { told.push_back(error.what); };
  policy.on_back = [&](Duration away) { told.push_back(away >= 100ms ? "back" : "too soon"); };
  EXPECT_TRUE(std::holds_alternative<Lease>(*acquire(session, policy, {}, {})));
  EXPECT_EQ(told, (std::vector<std::string>{"away", "back"}));
  EXPECT_EQ(session.count("withdraw"), 0u);
}

TEST(Acquirer, ButNotBeyondTheLimitNorWithoutWaitingNorWhenItRefuses) {
  const auto refused = [](Instant, Interrupt) -> Result<Attempt> {
    return failure(ErrorKind::refused, "no");
  };
  struct Case {
    bool wait;
    Duration limit;
    FakeSession::Script<Attempt> attempts;
    ErrorKind kind;
  };
  for (const Case& one : {Case{true, 120ms, {k_away}, ErrorKind::unreachable},
                          Case{false, 10s, {k_away, k_held}, ErrorKind::unreachable},
                          Case{true, 10s, {k_away, refused, k_held}, ErrorKind::refused}}) {
    FakeSession session;
    session.attempts = one.attempts;
    auto policy = patient();
    policy.outlast = true;
    policy.wait = one.wait;
    policy.limit = BootClock::now() + one.limit;
    const auto got = acquire(session, policy, {}, {});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind, one.kind);
    EXPECT_EQ(session.calls().back(), "withdraw");
    EXPECT_LT(BootClock::now(), policy.limit + 1s);
  }
}

TEST(Acquirer, AnInterruptEndsTheWaitForTheStore) {
  const Fd interrupt(eventfd(1, EFD_CLOEXEC));
  FakeSession session;
  session.attempts = {k_away};
  auto policy = patient();
  policy.outlast = true;
  EXPECT_TRUE(std::holds_alternative<Interrupted>(*acquire(session, policy, {interrupt.get()}, {})));
  EXPECT_EQ(session.calls().back(), "withdraw");
}

TEST(Acquirer, ButNotForEver) {
  FakeSession session;
  session.attempts = {k_busy, k_away};
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return Wake::news; }};
  const auto start = BootClock::now();
  EXPECT_FALSE(acquire(session, patient(), {}, {}));
  EXPECT_GE(BootClock::now() - start, 200ms);
}

TEST(Acquirer, ARefusalIsFinalEvenInTheQueue) {
  FakeSession session;
  session.attempts = {
      k_busy, [](Instant, Interrupt) -> Result<Attempt> { return failure(ErrorKind::refused, "no"); }};
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return Wake::news; }};
  const auto got = acquire(session, patient(), {}, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::refused);
  EXPECT_EQ(session.count("withdraw"), 1u);
}

TEST(Acquirer, TellsTheObserverWhenItAsksForIt) {
  FakeSession session;
  session.attempts = {k_busy};
  session.wakes = {no_news};
  auto policy = patient();
  policy.limit = BootClock::now() + 200ms;
  int told = 0;
  const auto got = acquire(session, policy, {}, [&](const Busy& busy) {
    EXPECT_EQ(busy.ahead, 2u);
    ++told;
    return BootClock::now() + 40ms;
  });
  EXPECT_TRUE(got);
  EXPECT_GE(told, 3);
  EXPECT_LE(told, 6);
}

}  // namespace
}  // namespace klock
