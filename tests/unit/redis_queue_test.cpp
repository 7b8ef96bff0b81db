// SPDX-License-Identifier: MIT
#include "support/redis_fixture.hpp"
#include "util/fd.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

class RedisQueue : public RedisTest {
 protected:
  std::unique_ptr<LockSession> holder(const std::string& name = "a", int ttl_ms = 10000) {
    auto mine = session(name, ttl_ms);
    EXPECT_TRUE(is_held(mine->attempt(false, soon(), {})));
    return mine;
  }
  std::unique_ptr<LockSession> waiter(const std::string& name = "a", int ttl_ms = 10000) {
    auto mine = session(name, ttl_ms);
    EXPECT_TRUE(is_busy(mine->attempt(true, soon(), {})));
    return mine;
  }
};

TEST_F(RedisQueue, ReleaseBetweenTheAttemptAndTheWaitIsNotMissed) {
  auto mine = holder();
  auto next = waiter();
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  const Instant start = BootClock::now();
  ASSERT_EQ(next->await_news(in_ms(5000), {}), Wake::news);
  ASSERT_TRUE(is_held(next->attempt(true, soon(), {})));
  EXPECT_LT(ms_since(start), 100 * slow_factor());
}

TEST_F(RedisQueue, NobodyOvertakes) {
  auto mine = holder();
  std::vector<std::unique_ptr<LockSession>> waiters;
  for (std::size_t i = 0; i < 20; ++i) {
    waiters.push_back(session("a"));
    const auto attempt = waiters.back()->attempt(true, soon(), {});
    ASSERT_TRUE(is_busy(attempt));
    ASSERT_EQ(busy_of(attempt).ahead, i);
  }
  for (auto& next : waiters) {
    ASSERT_EQ(mine->release(soon(), {}), Released::done);
    // Between the hand-over and the claim, and after it.
    ASSERT_TRUE(is_busy(session("a")->attempt(false, soon(), {})));
    ASSERT_EQ(next->await_news(soon(), {}), Wake::news);
    ASSERT_TRUE(is_held(next->attempt(true, soon(), {})));
    ASSERT_TRUE(is_busy(session("a")->attempt(false, soon(), {})));
    mine = std::move(next);
  }
  EXPECT_EQ(immortal_keys(), "");
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisQueue, KilledWaitersDelayNobody) {
  auto mine = holder();
  auto first = waiter();
  auto second = waiter();
  auto third = waiter();
  auto last = waiter();
  first.reset();
  second.reset();
  third.reset();
  ASSERT_TRUE(eventually([this] {
    return server().command({"PUBSUB", "CHANNELS"}).find(' ') == std::string::npos;
  }));
  const Instant start = BootClock::now();
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  ASSERT_TRUE(wait_for_lock(*last, 5000));
  EXPECT_LT(ms_since(start), 100 * slow_factor());
}

TEST_F(RedisQueue, DeadWaitersAreNotCountedNorShown) {
  auto mine = holder();
  auto first = waiter();
  auto second = session("a");
  ASSERT_EQ(busy_of(second->attempt(true, soon(), {})).ahead, 1u);
  EXPECT_EQ(state("a").waiters.size(), 2u);
  first.reset();
  ASSERT_TRUE(eventually([&] { return state("a").waiters.size() == 1; }));
  EXPECT_EQ(busy_of(second->attempt(true, soon(), {})).ahead, 0u);
}

TEST_F(RedisQueue, AFrozenWaiterCostsOneGrantLife) {
  auto mine = holder();
  auto frozen = waiter();  // keeps its connection but never claims
  auto next = waiter();
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  const Instant start = BootClock::now();
  ASSERT_TRUE(wait_for_lock(*next, 5000));
  EXPECT_GE(ms_since(start), 900);
  EXPECT_LT(ms_since(start), 1300 * slow_factor());
}

TEST_F(RedisQueue, AMissedGrantKeepsThePlace) {
  auto mine = holder();
  auto frozen = waiter("a", 200);  // so that its grant is short
  auto later = waiter();
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  ASSERT_TRUE(wait_for_lock(*later, 5000));
  auto newest = waiter();
  // Thawed: reads the grant that is over, and is first again.
  ASSERT_EQ(frozen->await_news(soon(), {}), Wake::news);
  const auto attempt = frozen->attempt(true, soon(), {});
  ASSERT_TRUE(is_busy(attempt));
  EXPECT_EQ(busy_of(attempt).ahead, 0u);
  ASSERT_EQ(later->release(soon(), {}), Released::done);
  EXPECT_TRUE(wait_for_lock(*frozen, 1000));
}

// 1. its lease has ended before it heard that it had the lock  2. two readers are let in at once  3. it asks
// again, waits for them, and is granted the lock.
TEST_F(RedisQueue, TheFenceOfAHoldThatHasEndedDoesNotComeBackWithAGrant) {
  const Claim late = make_claim("a", 200);
  ASSERT_TRUE(is_held(store().session(late)->attempt(true, soon(), {})));
  std::vector<std::unique_ptr<LockSession>> readers;
  for (int i = 0; i < 2; ++i) {
    Claim claim = make_claim("a");
    claim.mode = Mode::shared;
    readers.push_back(store().session(claim));
    ASSERT_TRUE(is_busy(readers.back()->attempt(true, soon(), {})));
  }
  ASSERT_TRUE(eventually([this] { return server().command({"EXISTS", "klock:a"}) == "0"; }));
  ASSERT_TRUE(is_busy(session("a")->attempt(false, soon(), {})));
  std::uint64_t highest = 0;
  for (const auto& reader : readers) {
    ASSERT_EQ(reader->await_news(soon(), {}), Wake::news);
    const auto attempt = reader->attempt(true, soon(), {});
    ASSERT_TRUE(is_held(attempt));
    highest = std::max(highest, lease_of(attempt).fence);
  }
  const auto again = store().session(late);
  ASSERT_TRUE(is_busy(again->attempt(true, soon(), {})));
  for (const auto& reader : readers) ASSERT_EQ(reader->release(soon(), {}), Released::done);
  ASSERT_EQ(again->await_news(soon(), {}), Wake::news);
  const auto attempt = again->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(attempt));
  EXPECT_GT(lease_of(attempt).fence, highest);
}

TEST_F(RedisQueue, AReconnectedWaiterKeepsItsPlace) {
  auto mine = holder();
  auto first = waiter();
  auto second = waiter();
  server().command({"CLIENT", "KILL", "TYPE", "pubsub"});
  EXPECT_FALSE(first->await_news(soon(), {}));
  EXPECT_FALSE(second->await_news(soon(), {}));
  EXPECT_EQ(busy_of(second->attempt(true, soon(), {})).ahead, 0u);  // the first is away
  EXPECT_EQ(busy_of(first->attempt(true, soon(), {})).ahead, 0u);
  EXPECT_EQ(busy_of(second->attempt(true, soon(), {})).ahead, 1u);
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_TRUE(wait_for_lock(*first, 1000));
}

TEST_F(RedisQueue, WithdrawnWaiterLeavesNothingAndPassesTheGrantOn) {
  auto mine = holder();
  auto first = waiter();
  auto second = waiter();
  auto third = waiter();
  second->withdraw(in_ms(1000));
  EXPECT_EQ(state("a").waiters.size(), 2u);
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  first->withdraw(in_ms(1000));
  const Instant start = BootClock::now();
  ASSERT_TRUE(wait_for_lock(*third, 5000));
  EXPECT_LT(ms_since(start), 200 * slow_factor());
  ASSERT_EQ(third->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisQueue, AnInterruptedAttemptLeavesNothingEvenIfItSucceeded) {
  const Fd raised(eventfd(1, EFD_CLOEXEC));
  for (const bool enqueue : {false, true}) {
    auto mine = session("a");
    mine->begin(enqueue, soon(), {});
    const auto attempt = mine->attempt(enqueue, soon(), Interrupt{raised.get()});
    ASSERT_TRUE(attempt && std::holds_alternative<Interrupted>(*attempt));
    mine->withdraw(in_ms(1000));
    EXPECT_EQ(keys_left(), "");
  }
}

TEST_F(RedisQueue, WaitersAreInterruptible) {
  auto mine = holder();
  auto next = waiter();
  const Fd raised(eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    eventfd_write(raised.get(), 1);
  });
  const Instant start = BootClock::now();
  EXPECT_EQ(next->await_news(in_ms(5000), Interrupt{raised.get()}), Wake::interrupted);
  EXPECT_LT(ms_since(start), 250 * slow_factor());
  thread.join();
}

TEST_F(RedisQueue, AHandOverCostsFewCommandsHoweverManyWait) {
  auto mine = holder();
  std::vector<std::unique_ptr<LockSession>> waiters;
  for (int i = 0; i < 50; ++i) waiters.push_back(waiter());
  server().command({"CONFIG", "RESETSTAT"});
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  ASSERT_TRUE(wait_for_lock(*waiters[0], 1000));
  const std::string stats = server().command({"INFO", "commandstats"});
  const auto calls = [&](const std::string& command) {
    const auto at = stats.find("cmdstat_" + command + ":calls=");
    return at == std::string::npos ? 0 : std::stoi(stats.substr(at + command.size() + 15));
  };
  // Only the one who was granted the lock stirs. wait_for_lock() looks once itself before it waits.
  EXPECT_LE(calls("evalsha"), 3) << stats;
  EXPECT_LE(calls("publish"), 2) << stats;
  EXPECT_LE(calls("subscribe"), 1) << stats;
}

TEST_F(RedisQueue, AnIdleWaiterSendsNothing) {
  auto mine = holder();
  auto next = waiter();
  server().command({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(next->await_news(in_ms(1500), {}), Wake::timeout);
  EXPECT_EQ(server().command({"INFO", "commandstats"}).find("evalsha"), std::string::npos);
}

TEST_F(RedisQueue, ALongHoldIsToldToStopAtOnceThoughItNeverWaited) {
  auto mine = holder();
  const auto shown = state("a").holders.at(0);
  std::thread thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    auto admin = open_redis_store(server().redis_url(), "klock:");
    EXPECT_EQ(admin->ask_stop({"a", "klock:a"}, shown, {"bob@beta", "test"}, soon()), Eviction::done);
  });
  const Instant start = BootClock::now();
  bool asked = false;
  while (!asked && ms_since(start) < 4000) {
    ASSERT_TRUE(mine->await_news(in_ms(10000), {}));
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
    asked = std::get<Renewed>(*renewal).stop.has_value();
  }
  thread.join();
  EXPECT_TRUE(asked);
  EXPECT_LT(ms_since(start), 1700 * slow_factor());
}

// Many waiters over and over: nobody is lost in the gaps, and two never hold at once.
TEST_F(RedisQueue, ContendersTakeTurns) {
  constexpr int k_threads = 8;
  constexpr int k_rounds = 150;
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  const Instant start = BootClock::now();
  for (int i = 0; i < k_threads; ++i)
    threads.emplace_back([&] {
      auto mine_store = open_redis_store(server().redis_url(), "klock:");
      for (int round = 0; round < k_rounds; ++round) {
        auto mine = mine_store->session(make_claim("a", 5000));
        if (!wait_for_lock(*mine, 10000)) {
          ++failures;
          continue;
        }
        if (++inside != 1) ++overlaps;
        --inside;
        if (mine->release(soon(), {}) != Released::done) ++failures;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(failures, 0);
  // A lost wake-up would cost a lease, a second or more.
  EXPECT_LT(ms_since(start), 6000 * slow_factor());
  EXPECT_EQ(keys_left(), "");
}

}  // namespace
}  // namespace klock::test
