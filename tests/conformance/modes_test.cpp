// SPDX-License-Identifier: MIT
// Readers, writers and slots over every store.
#include "store_conformance.hpp"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

using Sessions = std::vector<std::unique_ptr<LockSession>>;

class ModeConformance : public StoreConformance {
 protected:
  Claim reader() {
    Claim claim = claim_of("n");
    claim.mode = Mode::shared;
    return claim;
  }
  Claim slot(std::size_t slots) {
    Claim claim = claim_of("n");
    claim.mode = Mode::slots;
    claim.slots = slots;
    return claim;
  }
  std::unique_ptr<LockSession> open(const Claim& claim) { return store_->session(claim); }
  std::unique_ptr<LockSession> held(const Claim& claim) {
    auto mine = open(claim);
    EXPECT_TRUE(take(*mine));
    return mine;
  }
  // In the queue.
  std::unique_ptr<LockSession> queued(const Claim& claim) {
    auto mine = open(claim);
    EXPECT_TRUE(is_busy(*mine, true));
    return mine;
  }
  static void release(LockSession& session) { EXPECT_EQ(*session.release(soon(), {}), Released::done); }
  // A newcomer that does not wait.
  bool is_open_to(const Claim& claim) {
    auto other = open(claim);
    const bool free = !is_busy(*other);
    if (free) release(*other);
    return free;
  }
  static bool renews(LockSession& session) {
    const auto renewal = session.renew(soon(), {});
    return renewal && std::holds_alternative<Renewed>(*renewal);
  }
};

class LeaseModeConformance : public ModeConformance {};

TEST_P(ModeConformance, ReadersGoTogetherAndKeepAWriterOut) {
  Sessions readers;
  for (int i = 0; i < 3; ++i) readers.push_back(held(reader()));
  const LockState state = look();
  EXPECT_EQ(state.occupancy, Occupancy::held);
  EXPECT_EQ(state.mode, Mode::shared);
  EXPECT_EQ(state.holders.size(), 3U);
  for (const auto& one : readers) {
    EXPECT_FALSE(is_open_to(claim_of("n")));
    EXPECT_TRUE(renews(*one));
    release(*one);
  }
  EXPECT_EQ(look().occupancy, Occupancy::free);
  EXPECT_TRUE(is_open_to(claim_of("n")));
}

TEST_P(ModeConformance, AWriterKeepsReadersOut) {
  auto writer = held(claim_of("n"));
  EXPECT_FALSE(is_open_to(reader()));
  EXPECT_FALSE(is_open_to(slot(3)));
  release(*writer);
  EXPECT_TRUE(is_open_to(reader()));
  EXPECT_TRUE(is_open_to(slot(3)));
}

TEST_P(ModeConformance, AQueuedWriterStopsNewReaders) {
  auto first = held(reader());
  auto writer = queued(claim_of("n"));
  EXPECT_FALSE(is_open_to(reader())) << "else readers could keep a writer out for ever";
  auto late = queued(reader());
  EXPECT_TRUE(renews(*first));
  release(*first);
  ASSERT_TRUE(take(*writer));
  EXPECT_TRUE(is_busy(*late, true));
  release(*writer);
  EXPECT_TRUE(take(*late));
}

TEST_P(ModeConformance, ReadersInARowAreServedTogether) {
  auto writer = held(claim_of("n"));
  auto first = queued(reader());
  auto second = queued(reader());
  auto other_writer = queued(claim_of("n"));
  auto last = queued(reader());
  EXPECT_EQ(look().waiters.size(), 4U);
  EXPECT_EQ(look().waiters[1].mode, Mode::shared);
  std::atomic<int> reading{0};
  std::vector<std::thread> threads;
  for (LockSession* one : {first.get(), second.get()})
    threads.emplace_back([&reading, one] { reading += take(*one) ? 1 : 0; });
  release(*writer);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(reading, 2);
  EXPECT_TRUE(is_busy(*other_writer, true));
  EXPECT_TRUE(is_busy(*last, true));
  release(*first);
  EXPECT_TRUE(is_busy(*other_writer, true));
  release(*second);
  ASSERT_TRUE(take(*other_writer));
  EXPECT_TRUE(is_busy(*last, true));
  release(*other_writer);
  EXPECT_TRUE(take(*last));
}

TEST_P(ModeConformance, SlotsAreACap) {
  Sessions holders;
  for (int i = 0; i < 3; ++i) holders.push_back(held(slot(3)));
  const LockState state = look();
  EXPECT_EQ(state.mode, Mode::slots);
  EXPECT_EQ(state.slots, 3U);
  EXPECT_EQ(state.holders.size(), 3U);
  EXPECT_FALSE(is_open_to(slot(3)));
  EXPECT_FALSE(is_open_to(claim_of("n")));
  release(*holders[1]);
  EXPECT_TRUE(is_open_to(slot(3)));
  EXPECT_FALSE(is_open_to(claim_of("n")));
}

TEST_P(ModeConformance, AFreeSlotGoesToTheFirstInTheQueue) {
  Sessions holders;
  for (int i = 0; i < 2; ++i) holders.push_back(held(slot(2)));
  auto first = queued(slot(2));
  auto second = queued(slot(2));
  for (std::size_t i = 0; i < 2; ++i) {
    LockSession& next = i == 0 ? *first : *second;
    release(*holders[i]);
    EXPECT_FALSE(is_open_to(slot(2))) << "it is not a newcomer's";
    EXPECT_TRUE(take(next));
  }
  EXPECT_FALSE(is_open_to(slot(2)));
}

TEST_P(ModeConformance, ReadersAndSlotsGoTogether) {
  auto one = held(slot(1));
  auto two = held(reader());
  EXPECT_FALSE(is_open_to(slot(1)));
  auto writer = queued(claim_of("n"));
  release(*one);
  EXPECT_TRUE(is_busy(*writer, true));
  release(*two);
  EXPECT_TRUE(take(*writer));
}

TEST_P(ModeConformance, AnotherNumberOfSlotsIsToldAtOnce) {
  auto mine = held(slot(3));
  auto other = open(slot(5));
  for (const bool enqueue : {false, true}) {
    const auto attempt = other->attempt(enqueue, soon(), {});
    ASSERT_FALSE(attempt);
    EXPECT_EQ(attempt.error().kind, ErrorKind::config);
    EXPECT_NE(attempt.error().what.find("3 slots, not 5"), std::string::npos) << attempt.error().what;
  }
  other->withdraw(soon());
  EXPECT_TRUE(look().waiters.empty());
  release(*mine);
  EXPECT_TRUE(is_open_to(slot(5))) << "nobody holds one any more";
}

TEST_P(ModeConformance, WaitersWithDifferentNumbersOfSlotsAreToldWhenItMatters) {
  auto writer = held(claim_of("n"));
  auto three = queued(slot(3));
  auto five = queued(slot(5));
  release(*writer);
  ASSERT_TRUE(take(*three));
  const Instant end = soon();
  Result<Attempt> attempt = five->attempt(true, end, {});
  while (attempt && BootClock::now() < end) {
    (void)five->await_news(in(milliseconds(50)), {});
    attempt = five->attempt(true, end, {});
  }
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::config);
}

TEST_P(ModeConformance, FencesGrowOverAllModes) {
  std::uint64_t last = 0;
  for (int round = 0; round < 3; ++round)
    for (const Claim& claim : {reader(), claim_of("n"), slot(2)}) {
      auto mine = open(claim);
      const auto lease = take(*mine);
      ASSERT_TRUE(lease);
      EXPECT_GT(lease->fence, last);
      last = lease->fence;
      release(*mine);
    }
}

TEST_P(ModeConformance, EachOfSeveralIsAskedToStop) {
  auto one = held(reader());
  auto two = held(reader());
  const LockState state = look();
  ASSERT_EQ(state.holders.size(), 2U);
  for (const Holder& holder : state.holders)
    EXPECT_EQ(*store_->ask_stop(state.lock, holder, {"root@here", "why"}, soon()), Eviction::done);
  for (LockSession* mine : {one.get(), two.get()}) {
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    ASSERT_TRUE(std::get<Renewed>(*renewal).stop);
    EXPECT_EQ(std::get<Renewed>(*renewal).stop->reason, "why");
    release(*mine);
  }
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(ModeConformance, MinHoldOfAReaderKeepsWritersOutAlone) {
  Claim claim = reader();
  claim.min_hold = stretched(milliseconds(400));
  auto mine = open(claim);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(mine->count_min_hold(true));
  release(*mine);
  EXPECT_EQ(look().occupancy, Occupancy::cooldown);
  EXPECT_TRUE(is_open_to(reader()));
  EXPECT_FALSE(is_open_to(claim_of("n")));
  auto writer = open(claim_of("n"));
  const auto next = take(*writer);
  ASSERT_TRUE(next);
  EXPECT_GE(next->acquired_at - lease->acquired_at, stretched(milliseconds(395)));
  EXPECT_LT(next->acquired_at - lease->acquired_at, stretched(seconds(3)));
}

TEST_P(ModeConformance, MinHoldOfASlotKeepsTheSlot) {
  Claim claim = slot(2);
  claim.min_hold = stretched(milliseconds(400));
  auto mine = open(claim);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(mine->count_min_hold(true));
  release(*mine);
  auto other = held(slot(2));
  EXPECT_FALSE(is_open_to(slot(2)));
  auto third = open(slot(2));
  const auto next = take(*third);
  ASSERT_TRUE(next);
  EXPECT_GE(next->acquired_at - lease->acquired_at, stretched(milliseconds(395)));
}

TEST_P(LeaseModeConformance, EachReadersLeaseEndsByItself) {
  Claim brief = reader();
  brief.ttl = stretched(milliseconds(300));
  auto one = held(brief);
  auto two = held(reader());
  auto writer = queued(claim_of("n"));
  const Instant end = in(seconds(3));
  while (look().holders.size() > 1 && BootClock::now() < end) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(look().holders.size(), 1U);
  EXPECT_FALSE(renews(*one));
  EXPECT_TRUE(renews(*two));
  EXPECT_TRUE(is_busy(*writer, true));
  release(*two);
  EXPECT_TRUE(take(*writer));
}

TEST_P(LeaseModeConformance, AWriterLearnsThatTheLongestLeaseIsOver) {
  Claim brief = reader();
  brief.ttl = stretched(milliseconds(400));
  Claim lasting = reader();
  lasting.ttl = seconds(60);
  auto one = held(lasting);
  auto two = held(brief);
  auto writer = open(claim_of("n"));
  std::optional<Lease> got;
  std::thread waiter([&] { got = take(*writer); });
  const Instant end = in(seconds(3));
  while (look().waiters.empty() && BootClock::now() < end) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(renews(*two));
  const Instant before = BootClock::now();
  release(*one);  // and the other one is never heard of again
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_LT(BootClock::now() - before, stretched(milliseconds(400 + 500)));
}

TEST_P(LeaseModeConformance, EachSlotExpiresWithItsHolder) {
  Claim brief = slot(2);
  brief.ttl = stretched(milliseconds(300));
  auto one = held(brief);
  auto two = held(slot(2));
  auto third = open(slot(2));
  const Instant before = BootClock::now();
  EXPECT_TRUE(take(*third));
  EXPECT_LT(BootClock::now() - before, stretched(seconds(2)));
  EXPECT_TRUE(renews(*two));
}

TEST_P(LeaseModeConformance, AnOutsiderSeesTheKeyTakenWhileReadersHoldIt) {
  auto one = held(reader());
  auto two = held(reader());
  release(*one);
  EXPECT_THROW(place_->lose_record("klock:other"), std::runtime_error);
  EXPECT_NO_THROW(place_->lose_record("klock:n"));
  EXPECT_FALSE(is_open_to(claim_of("n"))) << "the holder is none the less there";
  EXPECT_TRUE(renews(*two));
  EXPECT_NO_THROW(place_->lose_record("klock:n")) << "the renewal has put it back";
}

TEST_P(LeaseModeConformance, OneOfSeveralIsRemoved) {
  auto one = held(reader());
  const Holder first = look().holders.at(0);
  auto two = held(reader());
  EXPECT_EQ(*store_->remove(claim_of("n").lock, first, {"root@here", "stuck"}, soon()), Eviction::done);
  const auto renewal = one->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  ASSERT_TRUE(std::get<Gone>(*renewal).removed);
  EXPECT_EQ(std::get<Gone>(*renewal).removed->reason, "stuck");
  EXPECT_TRUE(renews(*two));
  EXPECT_EQ(look().holders.size(), 1U);
}

// Knows what goes together.
class Detector {
 public:
  bool enter(const Claim& claim) {
    if (claim.mode == Mode::exclusive) return writers_++ == 0 && readers_ == 0 && slots_ == 0;
    if (claim.mode == Mode::shared) return ++readers_ > 0 && writers_ == 0;
    return slots_++ < static_cast<int>(claim.slots) && writers_ == 0;
  }
  void leave(const Claim& claim) {
    (claim.mode == Mode::exclusive ? writers_ : claim.mode == Mode::shared ? readers_ : slots_)--;
  }

 private:
  std::atomic<int> writers_{0};
  std::atomic<int> readers_{0};
  std::atomic<int> slots_{0};
};

TEST_P(ModeConformance, MixedThreadsNeverBreakTheRules) {
  Detector detector;
  std::atomic<int> violations{0};
  std::atomic<int> holds{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::minstd_rand chance(t + 1);
      for (int i = 0; i < 25; ++i) {
        const auto dice = chance() % 3;
        const Claim claim = dice == 0 ? claim_of("n") : dice == 1 ? reader() : slot(3);
        auto mine = open(claim);
        if (!take(*mine, seconds(30))) return;
        if (!detector.enter(claim)) ++violations;
        std::this_thread::sleep_for(milliseconds(chance() % 3));
        ++holds;
        detector.leave(claim);
        EXPECT_EQ(*mine->release(in(seconds(5)), {}), Released::done);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(violations, 0);
  EXPECT_EQ(holds, 200);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

INSTANTIATE_TEST_SUITE_P(Stores, ModeConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls), by_place);
INSTANTIATE_TEST_SUITE_P(Stores, LeaseModeConformance, testing::Values(k_redis, k_sentinel, k_cluster, k_tls),
                         by_place);

}  // namespace
}  // namespace klock::test
