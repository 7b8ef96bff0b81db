// SPDX-License-Identifier: MIT
// Over every store: a hold that its holder has left to the runs that have joined it.
#include "store_conformance.hpp"

#include <thread>
#include <vector>

namespace klock::test {
namespace {

class JoinedConformance : public StoreConformance {
 protected:
  static Claim outer(Mode mode = Mode::exclusive) {
    Claim claim = claim_of("n");
    claim.mode = mode;
    claim.slots = mode == Mode::slots ? 1 : 0;
    return claim;
  }
  // Started by a run that knows these.
  static Claim inside(const std::vector<Claim>& around) {
    Claim claim = outer(around.front().mode);
    for (const Claim& one : around) claim.ancestors.push_back(one.token);
    return claim;
  }
  static Claim known(Claim claim) {
    claim.by_token = true;
    return claim;
  }
  std::unique_ptr<LockSession> joined(const Claim& claim) {
    auto session = store_->session(claim);
    const auto attempt = session->attempt(false, soon(), {});
    EXPECT_TRUE(attempt) << attempt.error().what;
    const auto* lease = attempt ? std::get_if<Lease>(&*attempt) : nullptr;
    EXPECT_TRUE(lease != nullptr && lease->joined);
    return session;
  }
  static void expect_undisturbed(LockSession& session) {
    const auto renewal = session.renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    ASSERT_TRUE(std::holds_alternative<Renewed>(*renewal));
    EXPECT_FALSE(std::get<Renewed>(*renewal).stop);
    EXPECT_GT(std::get<Renewed>(*renewal).deadline, BootClock::now());
  }
  // As to the token alone.
  void expect_void(const Claim& claim) {
    const auto confirmed = store_->session(known(claim))->confirm(soon(), {});
    ASSERT_TRUE(confirmed) << confirmed.error().what;
    EXPECT_FALSE(std::holds_alternative<Renewed>(*confirmed));
    const auto renewed = store_->session(known(claim))->renew(soon(), {});
    ASSERT_TRUE(renewed) << renewed.error().what;
    EXPECT_FALSE(std::holds_alternative<Renewed>(*renewed));
    const auto released = store_->session(known(claim))->release(soon(), {});
    ASSERT_TRUE(released) << released.error().what;
    EXPECT_NE(*released, Released::done);
    EXPECT_TRUE(is_busy(*store_->session(inside({claim})))) << "not joined";
  }
  void expect_shown(const Claim& claim, std::uint64_t fence) {
    const LockState state = look();
    EXPECT_EQ(state.occupancy, Occupancy::held);
    ASSERT_EQ(state.holders.size(), 1U);
    EXPECT_EQ(state.holders[0].id, claim.token.id());
    EXPECT_EQ(state.holders[0].who.message, "message of n");
    EXPECT_EQ(state.holders[0].who.pid, claim.who.pid);
    EXPECT_EQ(state.holders[0].fence, fence);
  }
  static void release(LockSession& session) {
    const auto released = session.release(soon(), {});
    ASSERT_TRUE(released) << released.error().what;
    EXPECT_EQ(*released, Released::done);
  }

  // From the release of the holder's on, which `inner` joined as `claim`.
  void expect_left(const Claim& holder, std::uint64_t fence, const Claim& claim, LockSession& inner) {
    auto waiting = store_->session(outer(holder.mode));
    EXPECT_TRUE(is_busy(*waiting, true));
    for (int again = 0; again < 2; ++again) {
      expect_undisturbed(inner);
      expect_void(holder);
      expect_shown(holder, fence);
    }
    auto deeper = joined(inside({holder, claim}));
    release(inner);
    expect_undisturbed(*deeper);
    expect_shown(holder, fence);
    expect_void(holder);
    EXPECT_TRUE(is_busy(*store_->session(inside({holder, claim})))) << "that one has released, too";
    EXPECT_TRUE(is_busy(*waiting, true));
    release(*deeper);
    ASSERT_TRUE(take(*waiting)) << "the last one hands it over";
    release(*waiting);
    EXPECT_EQ(look().occupancy, Occupancy::free);
  }
};

TEST_P(JoinedConformance, AHoldThatItsHolderHasReleased) {
  for (const Mode mode : {Mode::exclusive, Mode::slots}) {
    const Claim holder = outer(mode);
    auto mine = store_->session(holder);
    const auto lease = take(*mine);
    ASSERT_TRUE(lease);
    const Claim claim = inside({holder});
    auto inner = joined(claim);
    release(*mine);
    mine.reset();
    expect_left(holder, lease->fence, claim, *inner);
  }
}

TEST_P(JoinedConformance, ADetachedHoldThatWasReleased) {
  for (const Mode mode : {Mode::exclusive, Mode::slots}) {
    Claim holder = outer(mode);
    holder.detached = true;
    holder.who.pid = 0;
    const auto lease = take(*store_->session(holder));
    ASSERT_TRUE(lease);
    const Claim claim = inside({holder});
    auto inner = joined(claim);
    release(*store_->session(known(holder)));
    expect_left(holder, lease->fence, claim, *inner);
  }
}

TEST_P(JoinedConformance, AReleaseByTheTokenIsTheHoldersAlone) {
  const Claim holder = outer();
  auto mine = store_->session(holder);
  const auto lease = take(*mine);
  ASSERT_TRUE(lease);
  const Claim claim = inside({holder});
  auto inner = joined(claim);
  std::thread script([&] { release(*store_->session(known(holder))); });
  bool told = false;
  const Instant end = in(seconds(5));
  while (!told && BootClock::now() < end) {
    (void)mine->await_news(in(milliseconds(100)), {});
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    const auto* renewed = std::get_if<Renewed>(&*renewal);
    told = renewed == nullptr || renewed->stop;
    expect_undisturbed(*inner);
  }
  EXPECT_TRUE(told);
  (void)mine->release(soon(), {});
  script.join();
  mine.reset();
  expect_left(holder, lease->fence, claim, *inner);
}

TEST_P(JoinedConformance, AForcedReleaseStopsThoseWhoHaveJoined) {
  for (const bool detached : {false, true}) {
    Claim holder = outer();
    holder.detached = detached;
    auto mine = store_->session(holder);
    ASSERT_TRUE(take(*mine));
    auto inner = joined(inside({holder}));
    release(detached ? *store_->session(known(holder)) : *mine);
    const LockState state = look();
    EXPECT_EQ(*store_->ask_stop(state.lock, state.holders.at(0), {"root@here", "why"}, soon()),
              Eviction::done);
    EXPECT_EQ(*inner->await_news(soon(), {}), Wake::news);
    const auto renewal = inner->renew(soon(), {});
    ASSERT_TRUE(renewal) << renewal.error().what;
    ASSERT_TRUE(std::holds_alternative<Renewed>(*renewal));
    ASSERT_TRUE(std::get<Renewed>(*renewal).stop);
    EXPECT_EQ(std::get<Renewed>(*renewal).stop->reason, "why");
    EXPECT_FALSE(std::get<Renewed>(*renewal).stop->released);
    release(*inner);
    EXPECT_EQ(look().occupancy, Occupancy::free);
  }
}

TEST_P(JoinedConformance, TheNextHoldIsJoinedAsAnyOther) {
  const Claim first = outer();
  auto mine = store_->session(first);
  ASSERT_TRUE(take(*mine));
  auto inner = joined(inside({first}));
  const Claim second = outer();
  auto next = store_->session(second);
  ASSERT_TRUE(is_busy(*next, true));
  release(*mine);
  release(*inner);
  ASSERT_TRUE(take(*next));
  expect_undisturbed(*next);
  const auto confirmed = store_->session(known(second))->confirm(soon(), {});
  ASSERT_TRUE(confirmed) << confirmed.error().what;
  EXPECT_TRUE(std::holds_alternative<Renewed>(*confirmed));
  expect_void(first);
  release(*joined(inside({first, second})));
  release(*next);
}

// 1. a run finds a detached hold  2. it is released  3. another takes the lock.
TEST_P(JoinedConformance, JoiningAndReleasingADetachedHoldExcludeEachOther) {
  for (int round = 0; round < 60; ++round) {
    Claim holder = outer();
    holder.detached = true;
    ASSERT_TRUE(take(*store_->session(holder)));
    auto inner = store_->session(inside({holder}));
    auto other = session();
    bool took = false;
    std::thread joiner([&] { took = take(*inner).has_value(); });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 10));
    release(*store_->session(known(holder)));
    joiner.join();
    ASSERT_TRUE(took) << "joined, or got it afterwards";
    ASSERT_EQ(look().holders.size(), 1U);
    EXPECT_FALSE(look().holders[0].id.empty());
    EXPECT_TRUE(is_busy(*other));
    expect_undisturbed(*inner);
    release(*inner);
    ASSERT_EQ(look().occupancy, Occupancy::free);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, JoinedConformance,
                         testing::Values(k_local, k_redis, k_sentinel, k_cluster, k_tls, k_redlock),
                         by_place);

}  // namespace
}  // namespace klock::test
