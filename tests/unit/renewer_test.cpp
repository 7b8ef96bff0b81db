// SPDX-License-Identifier: MIT
#include "lease/renewer.hpp"

#include "support/fake_session.hpp"

#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>

namespace klock {
namespace {

using namespace std::chrono_literals;
using test::FakeSession;
using test::no_news;

constexpr Duration k_ttl = 120ms;

Result<Renewal> renewed(Instant, Interrupt) {
  return Renewed{.deadline = BootClock::now() + k_ttl};
}
Result<Renewal> away(Instant, Interrupt) {
  return failure(ErrorKind::unreachable, "away");
}

class RenewerTest : public testing::Test {
 protected:
  void SetUp() override { session.wakes = {no_news}; }

  std::unique_ptr<Renewer> start() {
    const Instant now = BootClock::now();
    auto renewer = std::make_unique<Renewer>(session, Lease{now, now + k_ttl, 1}, k_ttl,
                                             [this](Instant) { ++extended; });
    EXPECT_TRUE(renewer->start());
    return renewer;
  }

  // All events up to the first of type T, which is the last; empty after 5 s.
  template <class T>
  static std::vector<RenewalEvent> events_until(Renewer& renewer) {
    std::vector<RenewalEvent> all;
    const Instant limit = BootClock::now() + 5s;
    while (BootClock::now() < limit) {
      pollfd ready{renewer.event_fd(), POLLIN, 0};
      poll(&ready, 1, 50);
      for (auto& event : renewer.take_events()) {
        all.push_back(std::move(event));
        if (std::holds_alternative<T>(all.back())) return all;
      }
    }
    return {};
  }

  FakeSession session;
  std::atomic<int> extended{0};
};

TEST_F(RenewerTest, RenewsAgainAndAgain) {
  session.renewals = {renewed};
  const auto renewer = start();
  const Instant limit = BootClock::now() + 5s;
  while (extended < 5 && BootClock::now() < limit) poll(nullptr, 0, 5);
  renewer->stop();
  EXPECT_GE(extended, 5);
  EXPECT_TRUE(renewer->take_events().empty());
  EXPECT_GT(renewer->deadline(), BootClock::now());
}

TEST_F(RenewerTest, AfterASlowAnswerTheFirstRenewalIsDueAtOnce) {
  session.renewals = {renewed};
  const Instant now = BootClock::now();
  Renewer renewer(session, Lease{now, now + 15s, 1}, 30s, [this](Instant) { ++extended; });
  EXPECT_LE(renewer.first_due(), now);
  ASSERT_TRUE(renewer.start());
  const Instant limit = now + 5s;
  while (extended < 1 && BootClock::now() < limit) poll(nullptr, 0, 5);
  EXPECT_EQ(extended, 1);
}

TEST_F(RenewerTest, TroubleThatPassesIsNotReportedToWhomOnlyTheEndMatters) {
  session.renewals = {renewed, away, renewed, [](Instant, Interrupt) { return Gone{}; }};
  const Instant now = BootClock::now();
  Renewer renewer(session, Lease{now, now + k_ttl, 1}, k_ttl, [](Instant) {});
  renewer.report_ends_only();
  ASSERT_TRUE(renewer.start());
  const auto events = events_until<Lost>(renewer);
  EXPECT_EQ(events.size(), 1u);
}

TEST_F(RenewerTest, SendsNothingAfterStop) {
  session.renewals = {renewed};
  const auto renewer = start();
  renewer->stop();
  const auto before = session.calls().size();
  poll(nullptr, 0, 150);
  EXPECT_EQ(session.calls().size(), before);
}

TEST_F(RenewerTest, TroubleIsDoubtAndTheLeaseSurvivesIt) {
  session.renewals = {away, away, renewed};
  const auto renewer = start();
  const auto events = events_until<Recovered>(*renewer);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Trouble>(events[0]));
}

TEST_F(RenewerTest, TroubleThatLastsIsLossAtTheDeadline) {
  session.renewals = {away};
  const Instant begun = BootClock::now();
  const auto renewer = start();
  const auto events = events_until<Lost>(*renewer);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_GE(BootClock::now() - begun, k_ttl);
  EXPECT_LT(BootClock::now() - begun, k_ttl + 1s);
  EXPECT_GE(session.count("renew"), 2u);
}

TEST_F(RenewerTest, GoneIsLossAtOnceAndTellsWhoRemovedIt) {
  session.renewals = {[](Instant, Interrupt) -> Result<Renewal> {
    return Gone{StopRequest{"admin@host", "stuck"}};
  }};
  const auto renewer = start();
  const auto events = events_until<Lost>(*renewer);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<Lost>(events[0]).removed->by, "admin@host");
  EXPECT_EQ(extended, 0);
}

TEST_F(RenewerTest, NotMineIsLossAtOnce) {
  session.renewals = {[](Instant, Interrupt) -> Result<Renewal> { return NotMine{}; }};
  const auto renewer = start();
  EXPECT_EQ(events_until<Lost>(*renewer).size(), 1u);
  EXPECT_EQ(session.count("renew"), 1u);
}

TEST_F(RenewerTest, PassesAnOrderToStopOn) {
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return Wake::news; }};
  session.renewals = {[](Instant, Interrupt) -> Result<Renewal> {
    return Renewed{.deadline = BootClock::now() + k_ttl, .stop = StopRequest{"root@a", "why"}};
  }};
  const auto renewer = start();
  const auto events = events_until<StopAsked>(*renewer);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<StopAsked>(events[0]).request.reason, "why");
}

TEST_F(RenewerTest, ASuspensionLongerThanTheLeaseIsNoticedBeforeAnythingIsSent) {
  session.wakes = {[](Instant until, Interrupt) -> Result<Wake> {
    while (BootClock::now() < until + 1500ms) poll(nullptr, 0, 10);
    return Wake::timeout;
  }};
  session.renewals = {renewed};
  const auto renewer = start();
  const auto events = events_until<Lost>(*renewer);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(std::get<Lost>(events[0]).why.find("suspended"), std::string::npos);
  EXPECT_EQ(session.count("renew"), 0u);
}

TEST_F(RenewerTest, BrokenNewsDoNotMakeItSpin) {
  session.wakes = {[](Instant, Interrupt) -> Result<Wake> { return failure(ErrorKind::unreachable, "cut"); }};
  session.renewals = {renewed};
  const auto renewer = start();
  poll(nullptr, 0, 300);
  renewer->stop();
  EXPECT_LE(session.count("renew"), 15u);
}

}  // namespace
}  // namespace klock
