// SPDX-License-Identifier: MIT
// Over every store: Claim::min_hold.
#include "store_conformance.hpp"

namespace klock::test {
namespace {

class MinHoldConformance : public StoreConformance {
 protected:
  static Claim lasting(Mode mode = Mode::exclusive) {
    Claim claim = claim_of("n");
    claim.min_hold = std::chrono::hours(1);
    claim.mode = mode;
    claim.slots = mode == Mode::slots ? 2 : 0;
    return claim;
  }
};

TEST_P(MinHoldConformance, MinHoldIsACooldown) {
  Claim claim = claim_of("n");
  claim.min_hold = stretched(milliseconds(400));
  auto mine = store_->session(claim);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(mine->count_min_hold(true));
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::cooldown);
  auto other = session();
  const auto attempt = other->attempt(false, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Busy>(*attempt));
  EXPECT_TRUE(std::get<Busy>(*attempt).cooldown);
  const auto next = take(*other);
  ASSERT_TRUE(next);
  EXPECT_GE(next->acquired_at - lease->acquired_at, stretched(milliseconds(395)));
}

TEST_P(MinHoldConformance, AHoldThatWasAskedToStopHasNoCooldown) {
  Claim claim = claim_of("n");
  claim.min_hold = std::chrono::hours(1);
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  ASSERT_TRUE(mine->count_min_hold(true));
  const LockState state = look();
  EXPECT_EQ(*store_->ask_stop(state.lock, state.holders.at(0), {"root@here", ""}, soon()), Eviction::done);
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

// The command was not run, or could not be.
TEST_P(MinHoldConformance, CountsForNothingUnlessThatIsSaid) {
  for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::slots})
    for (const bool taken_back : {false, true}) {
      auto mine = store_->session(lasting(mode));
      ASSERT_TRUE(take(*mine));
      if (taken_back) {
        ASSERT_TRUE(mine->count_min_hold(true));
        ASSERT_TRUE(mine->count_min_hold(false));
      }
      auto next = session();
      ASSERT_TRUE(is_busy(*next, true));
      EXPECT_EQ(*mine->release(soon(), {}), Released::done);
      ASSERT_TRUE(take(*next)) << mode_name(mode) << taken_back;
      EXPECT_EQ(*next->release(soon(), {}), Released::done);
      EXPECT_EQ(look().occupancy, Occupancy::free);
    }
}

// The guard's, after main died: main has seen the command start, or has not.
TEST_P(MinHoldConformance, IsKnownToWhoeverReleasesForADeadProcess) {
  for (const bool started : {false, true}) {
    const Claim claim = lasting();
    auto mine = store_->session(claim);
    ASSERT_TRUE(take(*mine));
    ASSERT_TRUE(mine->count_min_hold(started));
    mine.reset();
    auto guards = store_->session(claim);
    ASSERT_TRUE(guards->count_min_hold(started));
    ASSERT_TRUE(guards->release(soon(), {}));
    EXPECT_EQ(look().occupancy, started ? Occupancy::cooldown : Occupancy::free);
  }
}

TEST_P(MinHoldConformance, OfARunWithinMeansNothing) {
  const Claim outer = claim_of("n");
  auto mine = store_->session(outer);
  ASSERT_TRUE(take(*mine));
  Claim within = lasting();
  within.ancestors = {outer.token};
  auto nested = store_->session(within);
  ASSERT_TRUE(take(*nested)->joined);
  ASSERT_TRUE(nested->count_min_hold(true));
  EXPECT_EQ(*nested->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::held);
  EXPECT_EQ(*mine->release(soon(), {}), Released::done);
  EXPECT_EQ(look().occupancy, Occupancy::free);
}

TEST_P(MinHoldConformance, BeginsToKeepTheNameWhenTheLastOfThoseWhoHaveJoinedEnds) {
  for (const bool counts : {false, true}) {
    const Claim outer = lasting();
    auto mine = store_->session(outer);
    ASSERT_TRUE(take(*mine));
    ASSERT_TRUE(mine->count_min_hold(counts));
    Claim within = claim_of("n");
    within.ancestors = {outer.token};
    auto nested = store_->session(within);
    ASSERT_TRUE(take(*nested)->joined);
    EXPECT_EQ(*mine->release(soon(), {}), Released::done);
    EXPECT_EQ(look().occupancy, Occupancy::held);
    EXPECT_EQ(*nested->release(soon(), {}), Released::done);
    EXPECT_EQ(look().occupancy, counts ? Occupancy::cooldown : Occupancy::free);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, MinHoldConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls, k_redlock),
                         by_place);

}  // namespace
}  // namespace klock::test
