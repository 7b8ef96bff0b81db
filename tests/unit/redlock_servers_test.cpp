// SPDX-License-Identifier: MIT
#include "store/redlock/servers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace klock::redlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What was asked of one server, in order.
using Log = std::string;

std::vector<std::unique_ptr<Log>> logs(std::size_t count) {
  std::vector<std::unique_ptr<Log>> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(std::make_unique<Log>());
  return made;
}

Enough after_two(const Answers<int>& answers) {
  std::size_t there = 0;
  for (const auto& answer : answers) there += answer ? 1U : 0U;
  return there >= 2 ? Enough::yes : Enough::no;
}

Enough all(const Answers<int>&) {
  return Enough::no;
}

// The last one is silent until it is interrupted.
Result<int> but_the_last(Log& log, std::size_t i, Interrupt over) {
  log += "a";
  if (i < 2) return static_cast<int>(i);
  if (wait_ready(-1, 0, BootClock::now() + seconds(30), over) == Ready::interrupted) log += "!";
  return -1;
}

TEST(Servers, ASilentOneIsNotWaitedForOnceTheOthersAreEnough) {
  Servers<Log> servers(logs(3));
  bool interrupted = false;
  const Instant before = BootClock::now();
  const auto answers =
      servers.ask<int>(but_the_last, after_two, {BootClock::now() + seconds(20)}, {}, interrupted);
  EXPECT_LT(BootClock::now() - before, seconds(10));
  EXPECT_EQ(**answers[0], 0);
  EXPECT_EQ(**answers[1], 1);
  EXPECT_FALSE(answers[2]);
  EXPECT_FALSE(interrupted);
}

TEST(Servers, AreWaitedForUntilTheDeadline) {
  Servers<Log> servers(logs(3));
  bool interrupted = false;
  const Instant before = BootClock::now();
  const auto answers =
      servers.ask<int>(but_the_last, all, {BootClock::now() + milliseconds(100)}, {}, interrupted);
  EXPECT_GE(BootClock::now() - before, milliseconds(100));
  EXPECT_FALSE(answers[2]);
}

TEST(Servers, AreWaitedForALittleLongerWhereThatIsAskedFor) {
  Servers<Log> servers(logs(3));
  bool interrupted = false;
  const auto slow = [](Log&, std::size_t i, Interrupt) -> Result<int> {
    if (i == 2) wait_ready(-1, 0, BootClock::now() + milliseconds(50), {});
    return static_cast<int>(i);
  };
  const auto nearly = [](const Answers<int>& some) {
    return after_two(some) == Enough::yes ? Enough::nearly : Enough::no;
  };
  const Instant deadline = BootClock::now() + seconds(20);
  EXPECT_TRUE(servers.ask<int>(slow, nearly, {deadline, seconds(10)}, {}, interrupted)[2]);
  const Instant before = BootClock::now();
  EXPECT_FALSE(servers.ask<int>(but_the_last, nearly, {deadline, milliseconds(10)}, {}, interrupted)[2]);
  EXPECT_LT(BootClock::now() - before, seconds(10));
}

TEST(Servers, ACallEndsAtOnceWhenItIsInterrupted) {
  Servers<Log> servers(logs(3));
  const Fd raised(eventfd(1, EFD_CLOEXEC));
  bool interrupted = false;
  servers.ask<int>(but_the_last, all, {BootClock::now() + seconds(20)}, Interrupt{raised.get()}, interrupted);
  EXPECT_TRUE(interrupted);
}

TEST(Servers, WhatIsOvertakenIsDroppedUnlessItIsPressing) {
  Log* last = nullptr;
  auto made = logs(3);
  last = made[2].get();
  Servers<Log> servers(std::move(made));
  bool interrupted = false;
  const Instant deadline = BootClock::now() + seconds(20);
  const auto note = [](const char* letter) {
    return [letter](Log& log, std::size_t, Interrupt) -> Result<int> {
      log += letter;
      return 0;
    };
  };
  std::atomic<bool> begun = false;  // by the last one; what has not begun is dropped as well
  const auto first = [&begun](Log& log, std::size_t i, Interrupt over) {
    if (i == 2) begun = true;
    return but_the_last(log, i, over);
  };
  servers.ask<int>(first, after_two, {deadline}, {}, interrupted);
  ASSERT_TRUE(eventually([&begun] { return begun.load(); }));
  servers.ask<int>(note("dropped"), after_two, {deadline}, {}, interrupted);
  servers.ask<int>(note("p"), after_two, {deadline, {}, true}, {}, interrupted);
  servers.interrupt();
  const auto next = servers.ask<int>(note("n"), all, {deadline}, {}, interrupted);
  EXPECT_TRUE(next[2]);
  servers.stop();
  EXPECT_EQ(*last, "a!pn") << "in the order in which it was asked";
}

TEST(Servers, NothingIsUnderWayAfterTheEnd) {
  auto done = std::make_shared<std::atomic<int>>(0);
  {
    Servers<Log> servers(logs(3));
    bool interrupted = false;
    servers.ask<int>(
        [done](Log&, std::size_t, Interrupt over) -> Result<int> {
          wait_ready(-1, 0, BootClock::now() + seconds(30), over);
          return ++*done;
        },
        all, {BootClock::now() + milliseconds(20)}, {}, interrupted);
  }
  EXPECT_LE(done->load(), 3);
  EXPECT_EQ(done.use_count(), 1);
}

TEST(Worker, DoesOneThingAfterTheOtherAndCanBeUsedAgain) {
  Worker worker;
  std::string log;
  for (const char* letter : {"a", "b", "c"}) ASSERT_TRUE(worker.post([&log, letter] { log += letter; }));
  worker.stop();
  EXPECT_EQ(log, "abc");
  ASSERT_TRUE(worker.post([&log] { log += "d"; }));
  worker.stop();
  EXPECT_EQ(log, "abcd");
}

}  // namespace
}  // namespace klock::redlock
