// SPDX-License-Identifier: MIT
// Over every store: once-only work, limits of the queue, nested runs, and holds that are known by their token
// alone.
#include "store_conformance.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

class ClaimConformance : public StoreConformance {
 protected:
  static Claim once(const std::string& key, Duration keep = std::chrono::hours(1)) {
    Claim claim = claim_of("n");
    claim.once = Once{key, keep};
    return claim;
  }
  static bool is_completed(LockSession& session) {
    const auto attempt = session.attempt(true, soon(), {});
    EXPECT_TRUE(attempt) << attempt.error().what;
    return attempt && std::holds_alternative<Completed>(*attempt);
  }
  std::optional<Marker> marker(const std::string& key) {
    auto found = store_->marker(claim_of("n").lock, key, soon());
    EXPECT_TRUE(found) << found.error().what;
    return found ? *found : std::nullopt;
  }
  static Claim inside(const Claim& outer, Mode mode = Mode::exclusive) {
    Claim claim = claim_of("n");
    claim.mode = mode;
    claim.ancestors = {Token{*random_hex128()}, outer.token};
    return claim;
  }
};

class FullClaimConformance : public ClaimConformance {};  // with what a Redlock refuses

TEST_P(FullClaimConformance, CompletedWorkIsNotDoneAgain) {
  auto mine = store_->session(once("2026-11-30"));
  ASSERT_TRUE(take(*mine));
  EXPECT_EQ(*mine->complete(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);

  auto again = store_->session(once("2026-11-30"));
  const auto attempt = again->attempt(true, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Completed>(*attempt));
  const Marker& done = std::get<Completed>(*attempt).marker;
  EXPECT_EQ(done.key, "2026-11-30");
  EXPECT_EQ(done.who.pid, getpid());
  EXPECT_EQ(done.who.message, "message of n");
  EXPECT_GT(done.since_wall_ms, 0);
  ASSERT_TRUE(done.expires_in);
  EXPECT_GT(*done.expires_in, std::chrono::minutes(59));
  again->withdraw(soon());
  EXPECT_EQ(look().occupancy, Occupancy::free);
  EXPECT_TRUE(look().waiters.empty());

  auto other = store_->session(once("2026-12-01"));
  EXPECT_TRUE(take(*other)) << "another key";
  EXPECT_EQ(*other->release(soon(), {}), Released::done);
  EXPECT_FALSE(marker("2026-12-01")) << "released, not completed";
  ASSERT_TRUE(marker("2026-11-30"));
  EXPECT_EQ(marker("2026-11-30")->who.program, "conformance");
  EXPECT_TRUE(*store_->clear_marker(claim_of("n").lock, "2026-11-30", soon()));
  EXPECT_FALSE(*store_->clear_marker(claim_of("n").lock, "2026-11-30", soon()));
  EXPECT_FALSE(marker("2026-11-30"));
  EXPECT_TRUE(take(*again));
}

TEST_P(FullClaimConformance, MarkersOfStrangeKeysAreKeptApart) {
  for (const std::string& key :
       std::vector<std::string>{"a/b", "a%2Fb", "../../x", " ", "ä\n", "{t}", std::string(300, 'x')}) {
    EXPECT_FALSE(marker(key)) << key;
    auto mine = store_->session(once(key));
    ASSERT_TRUE(take(*mine)) << key;
    EXPECT_EQ(*mine->complete(soon(), {}), Released::done);
    EXPECT_TRUE(marker(key)) << key;
  }
}

TEST_P(FullClaimConformance, AWaiterLearnsThatTheWorkHasBeenDone) {
  auto first = store_->session(once("k"));
  ASSERT_TRUE(take(*first));
  auto second = store_->session(once("k"));
  auto third = store_->session(claim_of("n"));
  ASSERT_TRUE(is_busy(*second, true));
  ASSERT_TRUE(is_busy(*third, true));
  EXPECT_EQ(*first->complete(soon(), {}), Released::done);
  EXPECT_TRUE(is_completed(*second));
  second->withdraw(soon());
  EXPECT_TRUE(take(*third)) << "the grant went on";
}

TEST_P(FullClaimConformance, AMarkerExpires) {
  auto mine = store_->session(once("k", milliseconds(200)));
  ASSERT_TRUE(take(*mine));
  EXPECT_EQ(*mine->complete(soon(), {}), Released::done);
  const Instant end = in(seconds(3));
  while (marker("k") && BootClock::now() < end) std::this_thread::sleep_for(milliseconds(10));
  auto again = store_->session(once("k"));
  EXPECT_TRUE(take(*again));
}

TEST_P(FullClaimConformance, ALostHoldLeavesNoMarker) {
  auto mine = store_->session(once("k"));
  ASSERT_TRUE(take(*mine));
  place_->lose_record("klock:n");
  EXPECT_NE(*mine->complete(soon(), {}), Released::done);
  EXPECT_FALSE(marker("k"));
}

TEST_P(FullClaimConformance, TwentyAtOnceDoItOnce) {
  for (int round = 0; round < 5; ++round) {
    const std::string key = "round " + std::to_string(round);
    std::atomic<int> ran{0};
    std::atomic<int> skipped{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 20; ++t)
      threads.emplace_back([&] {
        auto mine = store_->session(once(key));
        const Instant end = in(seconds(20));
        while (BootClock::now() < end) {
          const auto attempt = mine->attempt(true, end, {});
          if (!attempt) continue;
          if (std::holds_alternative<Completed>(*attempt)) {
            mine->withdraw(end);
            ++skipped;
            return;
          }
          if (std::holds_alternative<Lease>(*attempt)) {
            ++ran;
            EXPECT_EQ(*mine->complete(end, {}), Released::done);
            return;
          }
          (void)mine->await_news(std::min(end, std::get<Busy>(*attempt).look_again), {});
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(skipped, 19);
  }
}

TEST_P(FullClaimConformance, AFullQueueIsNotJoined) {
  Claim claim = claim_of("n");
  claim.max_waiters = 1;
  auto holder = session();
  ASSERT_TRUE(take(*holder));
  auto first = store_->session(claim);
  auto attempt = first->attempt(true, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_FALSE(std::get<Busy>(*attempt).full) << "nobody waits yet";
  attempt = first->attempt(true, soon(), {});
  EXPECT_FALSE(std::get<Busy>(*attempt).full) << "it is in the queue itself";
  claim.token = Token{*random_hex128()};
  auto second = store_->session(claim);
  attempt = second->attempt(true, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::get<Busy>(*attempt).full);
  EXPECT_EQ(look().waiters.size(), 1U);
  first->withdraw(soon());
  attempt = second->attempt(true, soon(), {});
  EXPECT_FALSE(std::get<Busy>(*attempt).full);
  claim.max_waiters = 0;
  claim.token = Token{*random_hex128()};
  auto third = store_->session(claim);
  attempt = third->attempt(true, soon(), {});
  EXPECT_TRUE(std::get<Busy>(*attempt).full);
}

TEST_P(ClaimConformance, AnAncestorsHoldIsJoined) {
  const Claim outer = claim_of("n");
  auto mine = store_->session(outer);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  for (const Mode mode : {Mode::exclusive, Mode::shared}) {
    auto nested = store_->session(inside(outer, mode));
    const auto attempt = nested->attempt(true, soon(), {});
    ASSERT_TRUE(attempt) << attempt.error().what;
    ASSERT_TRUE(std::holds_alternative<Lease>(*attempt));
    EXPECT_TRUE(std::get<Lease>(*attempt).joined);
    EXPECT_EQ(std::get<Lease>(*attempt).fence, lease->fence);
    const auto renewal = nested->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    EXPECT_TRUE(std::holds_alternative<Renewed>(*renewal));
    EXPECT_EQ(*nested->release(soon(), {}), Released::done);
    EXPECT_EQ(look().occupancy, Occupancy::held) << "it is the ancestor's";
  }
}

TEST_P(ClaimConformance, AHoldStaysUntilThoseWhoHaveJoinedItHaveReleased) {
  for (const Mode mode : {Mode::exclusive, Mode::slots}) {
    Claim outer = claim_of("n");
    outer.mode = mode;
    outer.slots = mode == Mode::slots ? 1 : 0;
    auto mine = store_->session(outer);
    ASSERT_TRUE(take(*mine));
    std::vector<std::unique_ptr<LockSession>> nested;
    for (int i = 0; i < 2; ++i) {
      Claim claim = inside(outer, mode);
      claim.slots = outer.slots;
      nested.push_back(store_->session(claim));
      const auto lease = take(*nested.back());
      ASSERT_TRUE(lease);
      EXPECT_TRUE(lease->joined);
    }
    EXPECT_EQ(*mine->release(soon(), {}), Released::done);
    mine.reset();
    Claim competitor = claim_of("n");
    competitor.mode = mode;
    competitor.slots = outer.slots;
    auto waiting = store_->session(competitor);
    for (auto& one : nested) {
      EXPECT_EQ(look().occupancy, Occupancy::held);
      EXPECT_EQ(look().holders.at(0).id, outer.token.id());
      EXPECT_TRUE(is_busy(*waiting, true));
      const auto renewal = one->renew(soon(), {});
      ASSERT_TRUE(renewal) << renewal.error().what;
      EXPECT_TRUE(std::holds_alternative<Renewed>(*renewal));
      EXPECT_EQ(*one->release(soon(), {}), Released::done);
    }
    EXPECT_TRUE(take(*waiting, seconds(1))) << "the last one hands it over";
    EXPECT_EQ(*waiting->release(soon(), {}), Released::done);
    EXPECT_EQ(look().occupancy, Occupancy::free);
  }
}

TEST_P(ClaimConformance, AStopReachesThoseWhoHaveJoined) {
  const Claim outer = claim_of("n");
  auto mine = store_->session(outer);
  ASSERT_TRUE(take(*mine));
  auto nested = store_->session(inside(outer));
  ASSERT_TRUE(take(*nested));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  mine.reset();
  const LockState state = look();
  EXPECT_EQ(*store_->ask_stop(state.lock, state.holders.at(0), {"root@here", "why"}, soon()), Eviction::done);
  const auto renewal = nested->renew(soon(), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  ASSERT_TRUE(std::get<Renewed>(*renewal).stop);
  EXPECT_EQ(std::get<Renewed>(*renewal).stop->reason, "why");
  EXPECT_EQ(*nested->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

// 1. the inner run finds the outer one's hold  2. the outer one releases  3. another takes the lock.
TEST_P(ClaimConformance, JoiningAndReleasingExcludeEachOther) {
  std::atomic<int> inside_now{0};
  std::atomic<int> overlaps{0};
  for (int round = 0; round < 60; ++round) {
    const Claim outer = claim_of("n");
    auto mine = store_->session(outer);
    ASSERT_TRUE(take(*mine));
    const auto visit = [&](const Claim& claim) {
      auto session = store_->session(claim);
      if (!take(*session)) return;
      if (++inside_now != 1) ++overlaps;
      std::this_thread::sleep_for(milliseconds(1));
      --inside_now;
      EXPECT_EQ(*session->release(in(seconds(5)), {}), Released::done);
    };
    std::thread inner([&] { visit(inside(outer)); });
    std::thread other([&] { visit(claim_of("n")); });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
    EXPECT_EQ(*mine->release(soon(), {}), Released::done);
    mine.reset();
    inner.join();
    other.join();
  }
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(FullClaimConformance, SlotsWithinAHoldAreCounted) {
  Claim outer = claim_of("n");
  outer.mode = Mode::slots;
  outer.slots = 3;
  auto mine = store_->session(outer);
  ASSERT_TRUE(take(*mine));
  for (const std::size_t slots : {std::size_t{1}, std::size_t{5}}) {
    Claim claim = inside(outer, Mode::slots);
    claim.slots = slots;
    auto nested = store_->session(claim);
    const auto attempt = nested->attempt(true, soon(), {});
    ASSERT_FALSE(attempt) << slots;
    EXPECT_EQ(attempt.error().kind, ErrorKind::config);
  }
  Claim reader = claim_of("n");
  reader.mode = Mode::shared;
  auto shared = store_->session(reader);
  ASSERT_TRUE(take(*shared));
  Claim within = inside(reader, Mode::slots);
  within.slots = 3;
  auto nested = store_->session(within);
  const auto attempt = nested->attempt(true, soon(), {});
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::config);
}

TEST_P(ClaimConformance, TheIdOfAHoldIsNotItsToken) {
  Claim claim = claim_of("n");
  claim.detached = true;
  ASSERT_TRUE(take(*store_->session(claim)));
  Claim guessed = claim_of("n");
  guessed.token.value = look().holders.at(0).id + std::string(20, '0');
  guessed.by_token = true;
  const auto confirmed = store_->session(guessed)->confirm(soon(), {});
  ASSERT_TRUE(confirmed) << confirmed.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*confirmed));
  const auto renewed = store_->session(guessed)->renew(soon(), {});
  ASSERT_TRUE(renewed) << renewed.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*renewed));
  EXPECT_NE(*store_->session(guessed)->release(soon(), {}), Released::done);
  auto nested = store_->session(inside(guessed));
  EXPECT_TRUE(is_busy(*nested));
  EXPECT_EQ(look().occupancy, Occupancy::held);
}

TEST_P(ClaimConformance, ATokenCountsForNothingAfterTheRelease) {
  const Claim outer = claim_of("n");
  auto mine = store_->session(outer);
  ASSERT_TRUE(take(*mine));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  auto other = session();
  ASSERT_TRUE(take(*other));
  auto nested = store_->session(inside(outer));
  EXPECT_TRUE(is_busy(*nested));
  Claim elsewhere = inside(outer);
  elsewhere.lock = claim_of("another").lock;
  auto fresh = store_->session(elsewhere);
  const auto lease = take(*fresh);
  ASSERT_TRUE(lease);
  EXPECT_FALSE(lease->joined);
}

TEST_P(FullClaimConformance, ASharedAncestorCannotBecomeExclusive) {
  Claim outer = claim_of("n");
  outer.mode = Mode::shared;
  auto mine = store_->session(outer);
  ASSERT_TRUE(take(*mine));
  auto reader = store_->session(inside(outer, Mode::shared));
  auto queued = session();
  ASSERT_TRUE(is_busy(*queued, true));
  EXPECT_TRUE(take(*reader, seconds(1))) << "past a writer, who waits for our ancestor";
  auto writer = store_->session(inside(outer));
  const auto attempt = writer->attempt(true, soon(), {});
  ASSERT_FALSE(attempt) << "it would wait for itself";
  EXPECT_EQ(attempt.error().kind, ErrorKind::config);
}

TEST_P(ClaimConformance, ConfirmingExtendsNothing) {
  const Claim claim = claim_of("n");
  auto mine = store_->session(claim);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  for (int own = 0; own < 2; ++own) {
    auto fresh = store_->session(claim);
    const auto renewal = (own ? *mine : *fresh).confirm(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    const auto* renewed = std::get_if<Renewed>(&*renewal);
    ASSERT_NE(renewed, nullptr);
    if (store_->has_leases()) {
      EXPECT_LE(renewed->deadline, lease->deadline + milliseconds(50));
    }
  }
  auto stranger = session();
  const auto theirs = stranger->confirm(soon(), {});
  ASSERT_TRUE(theirs) << theirs.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*theirs));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  const auto after = store_->session(claim)->confirm(soon(), {});
  ASSERT_TRUE(after) << after.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*after));
}

TEST_P(ClaimConformance, ADetachedHoldNeedsNobodyAndEndsByItsToken) {
  Claim claim = claim_of("n");
  claim.detached = true;
  {
    auto mine = store_->session(claim);
    ASSERT_TRUE(take(*mine));
  }
  const LockState state = look();
  ASSERT_EQ(state.occupancy, Occupancy::held);
  ASSERT_EQ(state.holders.size(), 1U);
  EXPECT_EQ(state.holders[0].id, claim.token.id());
  ASSERT_TRUE(state.holders[0].expires_in);
  EXPECT_LE(*state.holders[0].expires_in, seconds(10));
  auto other = session();
  const auto attempt = other->attempt(false, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Busy>(*attempt));
  EXPECT_FALSE(std::get<Busy>(*attempt).cooldown);
  ASSERT_TRUE(std::get<Busy>(*attempt).holder);
  EXPECT_EQ(std::get<Busy>(*attempt).holder->who.message, "message of n");

  auto fresh = store_->session(claim);
  claim.ttl = seconds(30);
  const auto renewal = store_->session(claim)->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_GT(std::get<Renewed>(*renewal).deadline, in(seconds(25)));
  EXPECT_GT(*look().holders.at(0).expires_in, seconds(25));
  ASSERT_TRUE(is_busy(*other, true));
  EXPECT_EQ(*fresh->release(soon(), {}), Released::done);
  EXPECT_TRUE(take(*other)) << "the waiter was woken";
  EXPECT_NE(*store_->session(claim)->release(soon(), {}), Released::done);
}

TEST_P(ClaimConformance, ADetachedHoldExpires) {
  Claim claim = claim_of("n", stretched(milliseconds(300)));
  claim.detached = true;
  const auto lease = take(*store_->session(claim));
  ASSERT_TRUE(lease);
  auto other = session();
  const auto next = take(*other);
  ASSERT_TRUE(next);
  EXPECT_GE(next->acquired_at - lease->acquired_at, stretched(milliseconds(290)));
  EXPECT_LT(next->acquired_at - lease->acquired_at, stretched(seconds(2)));
}

TEST_P(ClaimConformance, AProcessLearnsThatItsHoldWasReleasedByTheToken) {
  const Claim claim = claim_of("n");
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  std::thread script([&] {
    Claim known = claim;
    known.by_token = true;
    const auto released = store_->session(known)->release(in(seconds(5)), {});
    ASSERT_TRUE(released) << released.error().what;
    EXPECT_EQ(*released, Released::done);
  });
  std::optional<StopRequest> told;
  const Instant end = in(seconds(5));
  while (!told && BootClock::now() < end) {
    (void)mine->await_news(in(milliseconds(100)), {});
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    if (const auto* renewed = std::get_if<Renewed>(&*renewal)) told = renewed->stop;
    if (const auto* gone = std::get_if<Gone>(&*renewal)) told = gone->removed;
  }
  (void)mine->release(soon(), {});
  script.join();
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->released);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

INSTANTIATE_TEST_SUITE_P(Stores, FullClaimConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls), by_place);
INSTANTIATE_TEST_SUITE_P(Stores, ClaimConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls, k_redlock),
                         by_place);

}  // namespace
}  // namespace klock::test
