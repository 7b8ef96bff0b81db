// SPDX-License-Identifier: MIT
// Over every store: renewals by those who know a hold's token, beside the process that keeps it.
#include "store_conformance.hpp"

#include <atomic>
#include <thread>

namespace klock::test {
namespace {

class RenewalConformance : public StoreConformance {
 protected:
  static Claim with_mode(Mode mode, Duration ttl) {
    Claim claim = claim_of("n", ttl);
    claim.mode = mode;
    claim.slots = mode == Mode::slots ? 2 : 0;
    return claim;
  }

  // What is left of the lease after the renewal.
  static Duration renewed(LockSession& session) {
    const auto renewal = session.renew(soon(), {});
    EXPECT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
    return renewal ? std::get<Renewed>(*renewal).deadline - BootClock::now() : Duration::zero();
  }
  Duration renewed_by_token(Claim claim, Duration ttl) {
    claim.by_token = true;
    claim.ttl = ttl;
    return renewed(*store_->session(claim));
  }
  Duration shown() {
    const auto left = look().holders.at(0).expires_in;
    EXPECT_TRUE(left);
    return left.value_or(milliseconds(0));
  }
};

class LeaseRenewalConformance : public RenewalConformance {};

// Whatever came in between: nobody's deadline lies after the end that the store knows.
TEST_P(LeaseRenewalConformance, ALeaseThatAProcessReliesOnGetsLongerAlone) {
  for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::slots}) {
    const Claim claim = with_mode(mode, seconds(10));
    auto mine = store_->session(claim);
    ASSERT_TRUE(take(*mine));
    EXPECT_GT(renewed_by_token(claim, milliseconds(300)), seconds(5));
    EXPECT_GT(shown(), seconds(5));
    EXPECT_GT(renewed_by_token(claim, seconds(60)), seconds(50));
    const Duration relied_on = renewed(*mine);
    EXPECT_GT(relied_on, seconds(50));
    EXPECT_LE(relied_on, shown());
    EXPECT_GT(renewed_by_token(claim, seconds(20)), seconds(50));
    EXPECT_GT(shown(), seconds(50));
    EXPECT_EQ(*mine->release(soon(), {}), Released::done);
    EXPECT_EQ(look().occupancy, Occupancy::free);
  }
}

TEST_P(LeaseRenewalConformance, ALongerLeaseIsRenewedOnceItNearsItsEnd) {
  const Duration ttl = stretched(milliseconds(600));
  const Claim claim = claim_of("n", ttl);
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  const Instant end = in(5 * ttl);
  EXPECT_GT(renewed_by_token(claim, 4 * ttl), ttl);
  Duration left = renewed(*mine);
  EXPECT_GT(left, ttl);
  while (BootClock::now() < end) {
    left = renewed(*mine);
    EXPECT_GT(left, ttl / 3);
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_LE(left, ttl);
}

TEST_P(LeaseRenewalConformance, TheProcessLearnsOfALongerLeaseAtOnce) {
  const Claim claim = claim_of("n", seconds(60));
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  std::atomic<bool> woken{false};
  std::thread script([&] {
    // It listens once it has held for a while.
    for (int tries = 0; tries < 100 && !woken; ++tries) {
      EXPECT_GT(renewed_by_token(claim, seconds(120)), seconds(100));
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  EXPECT_EQ(*mine->await_news(in(seconds(15)), {}), Wake::news);
  woken = true;
  script.join();
  EXPECT_GT(renewed(*mine), seconds(100));
}

TEST_P(RenewalConformance, ALeaseThatNoProcessReliesOnEndsAsAsked) {
  for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::slots}) {
    Claim claim = with_mode(mode, seconds(60));
    claim.detached = true;
    ASSERT_TRUE(take(*store_->session(claim)));
    EXPECT_GT(renewed_by_token(claim, seconds(100)), seconds(80));
    EXPECT_LE(renewed_by_token(claim, seconds(5)), seconds(5));
    EXPECT_LE(shown(), seconds(5));
    claim.by_token = true;
    EXPECT_EQ(*store_->session(claim)->release(soon(), {}), Released::done);
  }
}

TEST_P(RenewalConformance, ARunThatHasJoinedReliesOnTheLeaseToo) {
  Claim claim = claim_of("n", seconds(60));
  claim.detached = true;
  ASSERT_TRUE(take(*store_->session(claim)));
  Claim within = claim_of("n", seconds(1));
  within.ancestors = {claim.token};
  auto nested = store_->session(within);
  const auto lease = take(*nested);
  ASSERT_TRUE(lease && lease->joined);
  EXPECT_GT(renewed_by_token(claim, milliseconds(300)), seconds(50));
  EXPECT_GE(shown() + milliseconds(100), lease->deadline - BootClock::now());
  EXPECT_EQ(*nested->release(soon(), {}), Released::done);
  EXPECT_LE(renewed_by_token(claim, seconds(5)), seconds(5));
}

// A hold with a process has no lease on the local store: whatever is asked for means nothing.
TEST_P(RenewalConformance, WithoutALeaseThereIsNothingToExtend) {
  if (store_->has_leases()) return;
  const Claim claim = claim_of("n", milliseconds(300));
  auto mine = store_->session(claim);
  ASSERT_TRUE(take(*mine));
  for (const Duration ttl : {Duration(milliseconds(200)), Duration(seconds(60))}) {
    Claim known = claim;
    known.by_token = true;
    known.ttl = ttl;
    const auto knows = store_->session(known);
    for (LockSession* session : {mine.get(), knows.get()}) {
      const auto renewal = session->renew(soon(), {});
      ASSERT_TRUE(renewal) << renewal.error().what;
      EXPECT_EQ(std::get<Renewed>(*renewal).deadline, k_never);
    }
    EXPECT_FALSE(look().holders.at(0).expires_in);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, RenewalConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls, k_redlock),
                         by_place);
INSTANTIATE_TEST_SUITE_P(Stores, LeaseRenewalConformance,
                         testing::Values(k_redis, k_sentinel, k_cluster, k_tls, k_redlock), by_place);

}  // namespace
}  // namespace klock::test
