// SPDX-License-Identifier: MIT
// One suite over every store: what LockStore and LockSession promise, checked against the real thing.
#include "store_conformance.hpp"

#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

// What only stores with leases, on a server that can stall, have to promise.
class QueueConformance : public StoreConformance {};  // a Redlock has none
class LeaseConformance : public StoreConformance {};

TEST_P(StoreConformance, FreeLockIsTakenAndReleased) {
  auto mine = session();
  const Instant before = BootClock::now();
  const auto attempt = mine->attempt(false, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  const auto& lease = std::get<Lease>(*attempt);
  EXPECT_GT(lease.fence, 0U);
  EXPECT_GE(lease.acquired_at, before);
  if (store_->has_leases()) {
    EXPECT_GT(lease.deadline, before + seconds(9));
    EXPECT_LE(lease.deadline, BootClock::now() + seconds(10));
  } else {
    EXPECT_EQ(lease.deadline, k_never);
  }
  EXPECT_EQ(look().occupancy, Occupancy::held);
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(StoreConformance, BeginThenAttemptIsOneAcquisition) {
  auto mine = session();
  mine->begin(true, soon(), {});
  const auto attempt = mine->attempt(true, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::holds_alternative<Lease>(*attempt));
}

TEST_P(StoreConformance, HeldLockIsBusyAndTellsWhoHoldsIt) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto other = session();
  const auto attempt = other->attempt(false, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  const auto& busy = std::get<Busy>(*attempt);
  ASSERT_TRUE(busy.holder);
  EXPECT_EQ(busy.holder->who.pid, getpid());
  EXPECT_EQ(busy.holder->who.program, "conformance");
  EXPECT_EQ(busy.holder->who.message, "message of n");
  EXPECT_FALSE(busy.holder->foreign);
  EXPECT_FALSE(busy.cooldown);
  EXPECT_TRUE(look().waiters.empty()) << "without `enqueue` nothing is left behind";
}

TEST_P(StoreConformance, AttemptOfTheHolderKeepsTheHold) {  // a success whose reply was lost
  const Claim claim = claim_of("n");
  auto mine = store_->session(claim);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  const auto again = mine->attempt(true, soon(), {});
  ASSERT_TRUE(again) << again.error().what;
  ASSERT_TRUE(std::holds_alternative<Lease>(*again));
  EXPECT_EQ(std::get<Lease>(*again).fence, lease->fence);
}

TEST_P(StoreConformance, ReleaseIsIdempotent) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  const auto again = mine->release(soon(), {});
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_NE(*again, Released::interrupted);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(StoreConformance, ReleaseOfWhatIsNotMineChangesNothing) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto other = session();
  EXPECT_TRUE(is_busy(*other));
  const auto released = other->release(soon(), {});
  ASSERT_TRUE(released) << released.error().what;
  EXPECT_NE(*released, Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::held);
  ASSERT_TRUE(mine->renew(soon(), {}));
}

TEST_P(StoreConformance, RenewalConfirmsAndExtends) {
  auto mine = session();
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  for (int i = 0; i < 3; ++i) {
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    const auto* renewed = std::get_if<Renewed>(&*renewal);
    ASSERT_NE(renewed, nullptr);
    EXPECT_GE(renewed->deadline, lease->deadline);
    EXPECT_FALSE(renewed->stop);
  }
  EXPECT_EQ(look().occupancy, Occupancy::held);
}

TEST_P(StoreConformance, VanishedRecordIsGoneAndIsNotRecreated) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  place_->lose_record("klock:n");
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  EXPECT_TRUE(std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(look().occupancy, Occupancy::free);
  EXPECT_NE(*mine->release(soon(), {}), Released::done);
}

TEST_P(StoreConformance, RecordOfTheNextHolderIsNotMine) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  place_->lose_record("klock:n");
  auto other = session();
  ASSERT_TRUE(take(*other));
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*renewal));
  EXPECT_NE(*mine->release(soon(), {}), Released::done);
  const auto others = other->renew(soon(), {});
  ASSERT_TRUE(others) << others.error().what;
  EXPECT_TRUE(std::holds_alternative<Renewed>(*others)) << "untouched by the late one";
}

TEST_P(LeaseConformance, ExpiredLeaseIsFreeAndLost) {
  auto mine = session(milliseconds(200));
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  auto other = session();
  const auto next = take(*other);
  ASSERT_TRUE(next) << "the next one gets it without anybody's help";
  EXPECT_GE(next->acquired_at, lease->deadline);
  EXPECT_GT(next->fence, lease->fence);
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  ASSERT_TRUE(std::holds_alternative<NotMine>(*renewal));
  ASSERT_TRUE(std::get<NotMine>(*renewal).holder);
  EXPECT_EQ(*mine->release(soon(), {}), Released::not_mine);
}

TEST_P(LeaseConformance, StalledStoreIsDoubtByTheDeadlineAndNeverLoss) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  place_->stall();
  for (const bool renew : {true, false}) {
    const Instant before = BootClock::now();
    const Instant deadline = before + milliseconds(150);
    if (renew) {
      EXPECT_FALSE(mine->renew(deadline, {})) << "no answer is no outcome";
    } else {
      EXPECT_FALSE(waiting->attempt(true, deadline, {}));
    }
    EXPECT_GE(BootClock::now(), deadline - milliseconds(5));
    EXPECT_LT(BootClock::now(), deadline + stretched(milliseconds(500)));
  }
  EXPECT_FALSE(store_->inspect(claim_of("n").lock, in(milliseconds(100)), {}));
  place_->resume();
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  EXPECT_TRUE(std::holds_alternative<Renewed>(*renewal)) << "the session starts afresh by itself";
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_TRUE(take(*waiting));
}

TEST_P(StoreConformance, InterruptEndsEachCallAtOnce) {
  const int fd = eventfd(1, EFD_CLOEXEC);  // readable from the start
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  const Instant before = BootClock::now();
  const auto wake = waiting->await_news(in(seconds(30)), Interrupt{fd});
  ASSERT_TRUE(wake) << wake.error().what;
  EXPECT_EQ(*wake, Wake::interrupted);
  const auto holders_wake = mine->await_news(in(seconds(30)), Interrupt{fd});
  ASSERT_TRUE(holders_wake) << holders_wake.error().what;
  EXPECT_NE(*holders_wake, Wake::timeout);
  EXPECT_LT(BootClock::now() - before, seconds(1));
  close(fd);
}

TEST_P(LeaseConformance, InterruptEndsACallToAStalledStoreAtOnce) {
  const int fd = eventfd(1, EFD_CLOEXEC);
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  place_->stall();
  const Instant before = BootClock::now();
  const auto renewal = mine->renew(in(seconds(30)), Interrupt{fd});
  EXPECT_TRUE(!renewal || std::holds_alternative<Interrupted>(*renewal));
  const auto attempt = waiting->attempt(true, in(seconds(30)), Interrupt{fd});
  EXPECT_TRUE(!attempt || std::holds_alternative<Interrupted>(*attempt));
  const auto released = mine->release(in(seconds(30)), Interrupt{fd});
  EXPECT_TRUE(!released || *released == Released::interrupted);
  EXPECT_LT(BootClock::now() - before, seconds(1));
  place_->resume();
  close(fd);
}

TEST_P(StoreConformance, AwaitNewsTimesOut) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  const Instant until = in(milliseconds(100));
  Result<Wake> wake = waiting->await_news(until, {});
  while (wake && *wake == Wake::news && BootClock::now() < until) wake = waiting->await_news(until, {});
  ASSERT_TRUE(wake) << wake.error().what;
  EXPECT_LT(BootClock::now(), until + stretched(milliseconds(500)));
}

TEST_P(QueueConformance, ReleaseWakesTheWaiter) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  std::optional<Lease> got;
  std::thread waiter([&] { got = take(*waiting); });
  const Instant before = BootClock::now();
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_LT(BootClock::now() - before, seconds(1));
  EXPECT_TRUE(is_busy(*mine));
}

TEST_P(QueueConformance, QueueIsInOrderOfArrival) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  std::vector<std::unique_ptr<LockSession>> waiting;
  for (std::size_t i = 0; i < 5; ++i) {
    waiting.push_back(session());
    const auto attempt = waiting.back()->attempt(true, soon(), {});
    ASSERT_TRUE(attempt) << attempt.error().what;
    EXPECT_EQ(std::get<Busy>(*attempt).ahead, i);
  }
  EXPECT_EQ(look().waiters.size(), 5U);
  LockSession* holder = mine.get();
  for (auto& next : waiting) {
    EXPECT_EQ(*holder->release(soon(), {}), Released::done);
    auto newcomer = session();
    EXPECT_TRUE(is_busy(*newcomer)) << "nobody barges in between a release and the next waiter";
    ASSERT_TRUE(take(*next));
    holder = next.get();
  }
  EXPECT_EQ(*holder->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(QueueConformance, WithdrawnWaiterIsOutOfTheQueue) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto first = session();
  auto second = session();
  ASSERT_TRUE(is_busy(*first, true));
  ASSERT_TRUE(is_busy(*second, true));
  first->withdraw(soon());
  EXPECT_EQ(look().waiters.size(), 1U);
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_TRUE(take(*second, seconds(1)));
}

TEST_P(QueueConformance, WithdrawalGivesAGrantOn) {  // granted at the moment of giving up
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto first = session();
  auto second = session();
  ASSERT_TRUE(is_busy(*first, true));
  ASSERT_TRUE(is_busy(*second, true));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  first->withdraw(soon());
  EXPECT_TRUE(take(*second, seconds(1)));
}

TEST_P(StoreConformance, FreshSessionReleasesByItsToken) {  // the guard's, after main died
  const Claim claim = claim_of("n");
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  if (!store_->has_leases()) mine.reset();  // a kernel lock ends with its descriptor
  auto fresh = store_->session(claim);
  ASSERT_TRUE(fresh->release(soon(), {}));
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(StoreConformance, StopRequestWakesTheHolderAndShowsAtTheRenewal) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  (void)mine->await_news(in(milliseconds(50)), {});  // ready for news
  ASSERT_TRUE(mine->renew(soon(), {}));
  const auto state = look();
  ASSERT_EQ(state.holders.size(), 1U);
  std::thread admin([&] {
    EXPECT_EQ(*store_->ask_stop(state.lock, state.holders[0], {"root@here", "because"}, soon()),
              Eviction::done);
  });
  const Instant before = BootClock::now();
  std::optional<StopRequest> stop;
  while (!stop && BootClock::now() < before + seconds(3)) {
    const auto wake = mine->await_news(before + seconds(3), {});
    ASSERT_TRUE(wake) << wake.error().what;
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    stop = std::get<Renewed>(*renewal).stop;
  }
  admin.join();
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->by, "root@here");
  EXPECT_EQ(stop->reason, "because");
  EXPECT_LT(BootClock::now() - before, seconds(2)) << "at once, not at the next renewal";
  EXPECT_EQ(look().occupancy, Occupancy::held) << "asking ends nothing";
}

TEST_P(StoreConformance, StopRequestForAnotherHoldIsNotMine) {
  auto first = session();
  ASSERT_TRUE(take(*first));
  const auto shown = look().holders.at(0);
  EXPECT_EQ(*first->release(soon(), {}), Released::done);
  auto second = session();
  ASSERT_TRUE(take(*second));
  EXPECT_EQ(*store_->ask_stop(claim_of("n").lock, shown, {"root@here", ""}, soon()), Eviction::changed);
  EXPECT_EQ(*store_->remove(claim_of("n").lock, shown, {"root@here", ""}, soon()), Eviction::changed);
  const auto renewal = second->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  EXPECT_FALSE(std::get<Renewed>(*renewal).stop);
}

TEST_P(StoreConformance, RemovalIsLossAndTellsWho) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  const auto state = look();
  ASSERT_EQ(*store_->remove(state.lock, state.holders.at(0), {"root@here", "stuck"}, soon()), Eviction::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  ASSERT_TRUE(std::holds_alternative<Gone>(*renewal));
  const auto& removed = std::get<Gone>(*renewal).removed;
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->by, "root@here");
  EXPECT_EQ(removed->reason, "stuck");
}

TEST_P(QueueConformance, RemovalGivesTheLockToTheNextWaiter) {
  auto mine = session();
  ASSERT_TRUE(take(*mine));
  auto waiting = session();
  ASSERT_TRUE(is_busy(*waiting, true));
  const auto state = look();
  std::optional<Lease> got;
  std::thread waiter([&] { got = take(*waiting); });
  EXPECT_EQ(*store_->remove(state.lock, state.holders.at(0), {"root@here", "stuck"}, soon()), Eviction::done);
  waiter.join();
  ASSERT_TRUE(got);
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*renewal));
}

TEST_P(StoreConformance, NothingToAskOrRemove) {
  Holder nobody;
  nobody.id = "0123456789ab";
  nobody.fingerprint = "0123456789ab";
  EXPECT_EQ(*store_->ask_stop(claim_of("n").lock, nobody, {}, soon()), Eviction::gone);
  EXPECT_EQ(*store_->remove(claim_of("n").lock, nobody, {}, soon()), Eviction::gone);
}

TEST_P(StoreConformance, FenceGrows) {
  std::uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    auto mine = session();
    const auto lease = take(*mine);
    ASSERT_TRUE(lease);
    EXPECT_GT(lease->fence, last);
    last = lease->fence;
    EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  }
}

TEST_P(StoreConformance, ListShowsWhatIsHeldByNameAndPattern) {
  auto b = store_->session(claim_of("b/2"));
  auto a = store_->session(claim_of("a:1"));
  ASSERT_TRUE(take(*b) && take(*a));
  const auto all = store_->list("", soon(), {});
  ASSERT_TRUE(all) << all.error().what;
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].lock.name, "a:1");
  EXPECT_EQ((*all)[1].lock.key, "klock:b/2");
  const auto some = store_->list("b*", soon(), {});
  ASSERT_TRUE(some) << some.error().what;
  EXPECT_EQ(some->size(), 1U);
  EXPECT_EQ(*b->release(soon(), {}), Released::done);
  EXPECT_EQ(store_->list("", soon(), {})->size(), 1U);
}

TEST_P(StoreConformance, EightThreadsNeverOverlap) {
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> holds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        auto mine = session();
        if (!take(*mine, seconds(30))) return;
        if (++inside != 1) ++overlaps;
        ++holds;
        --inside;
        EXPECT_EQ(*mine->release(in(seconds(5)), {}), Released::done);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(holds, 200);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

INSTANTIATE_TEST_SUITE_P(Stores, QueueConformance,
                         testing::Values(k_local, k_redis, k_redis_socket, k_sentinel, k_cluster, k_tls),
                         by_place);
INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         testing::Values(k_local, k_redis, k_redis_socket, k_sentinel, k_cluster, k_tls,
                                         k_redlock),
                         by_place);
INSTANTIATE_TEST_SUITE_P(Stores, LeaseConformance,
                         testing::Values(k_redis, k_redis_socket, k_sentinel, k_cluster, k_tls, k_redlock),
                         by_place);

}  // namespace
}  // namespace klock::test
