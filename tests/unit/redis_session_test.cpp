// SPDX-License-Identifier: MIT
#include "journal/recording_store.hpp"
#include "support/redis_fixture.hpp"
#include "util/fd.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace klock::test {
namespace {

class RedisSession : public RedisTest {};

TEST_F(RedisSession, HoldsRenewsAndReleases) {
  auto mine = session("a");
  const Instant before = BootClock::now();
  const auto attempt = mine->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(attempt));
  EXPECT_GT(lease_of(attempt).deadline, before + Milliseconds(9800));
  EXPECT_LT(lease_of(attempt).deadline, BootClock::now() + Milliseconds(9900));
  EXPECT_GT(lease_of(attempt).fence, 1'600'000'000'000'000u);
  EXPECT_EQ(server().command({"TYPE", "klock:a"}), "string");
  EXPECT_EQ(server().command({"STRLEN", "klock:a"}), "32");

  server().command({"PEXPIRE", "klock:a", "1000"});
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_FALSE(std::get<Renewed>(*renewal).stop);
  EXPECT_GT(server().number({"PTTL", "klock:a"}), 9000);
  EXPECT_EQ(immortal_keys(), "");

  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
  EXPECT_EQ(immortal_keys(), "");
}

TEST_F(RedisSession, NonblockingRunsLeaveNoMoreThanOneRun) {
  for (int i = 0; i < 200; ++i) {
    auto mine = session("a");
    mine->begin(false, soon(), {});
    ASSERT_TRUE(is_held(mine->attempt(false, soon(), {})));
    ASSERT_EQ(mine->release(soon(), {}), Released::done);
  }
  EXPECT_EQ(server().command({"DBSIZE"}), "4");  // the fence, the log, and the statistics with their groups
  EXPECT_EQ(immortal_keys(), "");
}

TEST_F(RedisSession, BusyTellsTheHolderAndLeavesNothingBehindWithoutEnqueue) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(false, soon(), {})));
  auto other = session("a");
  const auto attempt = other->attempt(false, soon(), {});
  ASSERT_TRUE(is_busy(attempt));
  const Holder& holder = *busy_of(attempt).holder;
  EXPECT_FALSE(holder.foreign);
  EXPECT_EQ(holder.who.user, "ann");
  EXPECT_EQ(holder.who.program, "import.sh");
  EXPECT_EQ(holder.id, server().command({"GET", "klock:a"}).substr(0, 12));
  EXPECT_GT(holder.fence, 0u);
  EXPECT_EQ(server().command({"EXISTS", "{klock:a}:queue", "{klock:a}:waiters"}), "0");
}

TEST_F(RedisSession, SuccessWhoseReplyWasLostIsRecognised) {
  const Claim claim = make_claim("a");
  auto first = store().session(claim);
  const auto held = first->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(held));
  auto again = store().session(claim);
  const auto attempt = again->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(attempt));
  EXPECT_EQ(lease_of(attempt).fence, lease_of(held).fence);
  EXPECT_EQ(again->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisSession, PausedRenewalDoesNotTouchTheNextHolder) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server().command({"DEL", "klock:a"});
  auto next = session("a", 3000);
  ASSERT_TRUE(is_held(next->attempt(true, soon(), {})));
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<NotMine>(*renewal));
  EXPECT_FALSE(std::get<NotMine>(*renewal).removed);
  EXPECT_LE(server().number({"PTTL", "klock:a"}), 3000);
  EXPECT_EQ(mine->release(soon(), {}), Released::not_mine);
  EXPECT_EQ(next->release(soon(), {}), Released::done);
}

TEST_F(RedisSession, RenewalDoesNotBringAVanishedRecordBack) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server().command({"DEL", "klock:a"});
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "0");
  EXPECT_EQ(mine->release(soon(), {}), Released::gone);
  EXPECT_EQ(keys_left(), "");
}

// The server has done what was asked when the answer is late, and is asked once more.
TEST_F(RedisSession, ALossWhoseAnswerIsLateIsToldOnce) {
  const auto is_loss = [](const Event& event) { return event.kind == EventKind::lost; };
  for (const bool renews_again : {true, false}) {
    server().command({"FLUSHALL"});
    char audit[] = "/tmp/klock-audit-XXXXXX";
    ASSERT_TRUE(Fd(mkstemp(audit)));
    const auto locks = record_events(open_redis_store(server().redis_url(), "klock:"), {audit, {}, {}});
    const auto losses = [&] {
      const auto page = locks->events({}, soon(), {});
      return page ? std::count_if(page->events.begin(), page->events.end(), is_loss) : -1;
    };
    auto mine = locks->session(make_claim("a"));
    ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
    ASSERT_TRUE(mine->renew(soon(), {}));  // the server knows the script now
    server().command({"DEL", "klock:a"});
    server().freeze();
    EXPECT_FALSE(mine->renew(in_ms(50), {}));
    server().thaw();
    ASSERT_TRUE(eventually([&] { return losses() == 1; }));
    if (renews_again) {
      const auto renewal = mine->renew(soon(), {});
      EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
    }
    mine->note_lost("it could not be renewed in time");
    EXPECT_EQ(losses(), 1) << renews_again;
    std::ifstream file(audit);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t told = text.find("\"lost\"");
    EXPECT_NE(told, std::string::npos) << text;
    EXPECT_EQ(text.find("\"lost\"", told + 1), std::string::npos) << text;
    unlink(audit);
  }
}

TEST_F(RedisSession, EachLossOfARunWithSeveralLocksIsTold) {
  Claim claim = make_claim("a");
  for (const char* name : {"a", "b"}) {
    claim.lock = {name, std::string("klock:") + name};
    auto mine = store().session(claim);
    ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
    server().command({"DEL", claim.lock.key, "{" + claim.lock.key + "}:holders"});
    EXPECT_TRUE(mine->renew(soon(), {}));
    const auto page = store().events({}, soon(), {});
    ASSERT_TRUE(page && !page->events.empty());
    EXPECT_EQ(page->events.back().kind, EventKind::lost);
    EXPECT_EQ(page->events.back().lock.name, name);
  }
}

TEST_F(RedisSession, ReclaimTakesBackOnlyWhatNobodyHadInBetween) {
  Claim claim = make_claim("a");
  claim.reclaim = true;
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server().command({"FLUSHALL"});
  auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_TRUE(std::get<Renewed>(*renewal).reclaimed);
  EXPECT_EQ(server().command({"GET", "klock:a"}), claim.token.value);
  EXPECT_EQ(immortal_keys(), "");

  server().command({"DEL", "klock:a"});
  auto other = session("a");
  ASSERT_TRUE(is_held(other->attempt(false, soon(), {})));
  ASSERT_EQ(other->release(soon(), {}), Released::done);
  renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
}

TEST_F(RedisSession, ALateRenewalCannotTakeAReleasedLockBack) {
  Claim claim = make_claim("a");
  claim.reclaim = true;
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto guard = store().session(claim);
  ASSERT_EQ(guard->release(soon(), {}), Released::done);
  const auto renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "0");
}

TEST_F(RedisSession, ReleaseByTheTokenAloneIsIdempotent) {
  const Claim claim = make_claim("a");
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto guard = store().session(claim);
  EXPECT_EQ(guard->release(soon(), {}), Released::done);
  EXPECT_EQ(guard->release(soon(), {}), Released::gone);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisSession, FenceGrowsEvenAfterTheServerLostEverything) {
  auto mine = session("a");
  const auto first = mine->attempt(false, soon(), {});
  ASSERT_TRUE(is_held(first));
  server().command({"FLUSHALL"});
  auto next = session("a");
  const auto second = next->attempt(false, soon(), {});
  ASSERT_TRUE(is_held(second));
  EXPECT_GT(lease_of(second).fence, lease_of(first).fence);
  next->release(soon(), {});
  server().command({"SET", "{klock:a}:fence", "8000000000000000", "PX", "60000"});
  auto third = session("a");
  const auto attempt = third->attempt(false, soon(), {});
  ASSERT_TRUE(is_held(attempt));
  EXPECT_EQ(lease_of(attempt).fence, 8000000000000001u);
}

TEST_F(RedisSession, MinHoldKeepsTheNameTaken) {
  Claim claim = make_claim("a", 5000);
  claim.min_hold = stretched(Milliseconds(400));
  auto mine = store().session(claim);
  const Instant start = BootClock::now();
  ASSERT_TRUE(is_held(mine->attempt(false, soon(), {})));
  ASSERT_TRUE(mine->count_min_hold(true));
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(state("a").occupancy, Occupancy::cooldown);
  auto other = session("a");
  const auto busy = other->attempt(false, soon(), {});
  ASSERT_TRUE(is_busy(busy));
  EXPECT_TRUE(busy_of(busy).cooldown);
  ASSERT_TRUE(wait_for_lock(*other, 3000));
  EXPECT_GE(ms_since(start), 395 * slow_factor());
  EXPECT_LT(ms_since(start), 600 * slow_factor());
  EXPECT_EQ(immortal_keys(), "");
}

TEST_F(RedisSession, ARenewalFindsAHoldThatWasReleasedUnderMinHoldGone) {
  Claim claim = make_claim("a");
  claim.min_hold = Milliseconds(5000);
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto guard = store().session(claim);
  ASSERT_TRUE(guard->count_min_hold(true));
  ASSERT_EQ(guard->release(soon(), {}), Released::done);
  const auto renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
}

TEST_F(RedisSession, ExpiredLeaseOfACrashedHolderIsTakenSoonAfterItsEnd) {
  auto crashed = session("a", 600);
  ASSERT_TRUE(is_held(crashed->attempt(true, soon(), {})));
  crashed.reset();
  auto waiter = session("a");
  const Instant start = BootClock::now();
  ASSERT_TRUE(wait_for_lock(*waiter, 3000));
  EXPECT_GE(ms_since(start), 500);
  EXPECT_LT(ms_since(start), 800 * slow_factor());
}

TEST_F(RedisSession, WaitingForMoreThanALeaseGivesAFullLease) {
  auto first = session("a", 900);
  ASSERT_TRUE(is_held(first->attempt(true, soon(), {})));
  auto waiter = session("a", 500);
  ASSERT_TRUE(wait_for_lock(*waiter, 3000));
  const auto attempt = waiter->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(attempt));
  EXPECT_GT(lease_of(attempt).deadline, in_ms(400));
}

TEST_F(RedisSession, LostAuxiliaryKeysAreRepaired) {
  for (const char* lost : {"holders", "waiters", "queue", "fence"}) {
    server().command({"FLUSHALL"});
    auto mine = session("a");
    ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
    auto waiter = session("a");
    ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
    server().command({"DEL", std::string("{klock:a}:") + lost});
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal)) << lost;
    EXPECT_FALSE(state("a").holders.at(0).foreign) << lost;
    EXPECT_TRUE(is_busy(waiter->attempt(true, soon(), {}))) << lost;
    EXPECT_EQ(immortal_keys(), "") << lost;
    ASSERT_EQ(mine->release(soon(), {}), Released::done) << lost;
    EXPECT_TRUE(wait_for_lock(*waiter, 1000)) << lost;
    EXPECT_EQ(waiter->release(soon(), {}), Released::done) << lost;
    EXPECT_EQ(keys_left(), "") << lost;
  }
}

TEST_F(RedisSession, DamagedRecordsDoNotHarm) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  const std::string token = server().command({"GET", "klock:a"});
  for (const char* damaged :
       {"", "x", "1 2 exclusive 0 0 {\"pid\":\"no\",\"user\":7}", "1 2 exclusive 0 0 [["}) {
    server().command({"HSET", "{klock:a}:holders", token, damaged});
    auto other = session("a");
    ASSERT_TRUE(is_busy(other->attempt(false, soon(), {}))) << damaged;
    ASSERT_EQ(state("a").holders.size(), 1u) << damaged;
  }
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
}

TEST_F(RedisSession, ScriptFlushBetweenAnyTwoStepsIsSurvived) {
  for (const bool enqueue : {false, true}) {
    auto mine = session("a");
    server().command({"SCRIPT", "FLUSH"});
    mine->begin(enqueue, soon(), {});
    ASSERT_TRUE(is_held(mine->attempt(enqueue, soon(), {})));
    server().command({"SCRIPT", "FLUSH"});
    auto waiter = session("a");
    ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
    server().command({"SCRIPT", "FLUSH"});
    const auto renewal = mine->renew(soon(), {});
    ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
    server().command({"SCRIPT", "FLUSH"});
    EXPECT_EQ(state("a").occupancy, Occupancy::held);
    server().command({"SCRIPT", "FLUSH"});
    ASSERT_EQ(mine->release(soon(), {}), Released::done);
    server().command({"SCRIPT", "FLUSH"});
    ASSERT_TRUE(wait_for_lock(*waiter, 1000));
    ASSERT_EQ(waiter->release(soon(), {}), Released::done);
    EXPECT_EQ(keys_left(), "");
  }
}

TEST_F(RedisSession, UnixSocketAndDatabase) {
  RedisUrl url;
  url.socket_path = server().socket_path();
  url.database = 3;
  auto store = open_redis_store(url, "klock:");
  EXPECT_EQ(store->describe(), "unix://" + server().socket_path() + "?db=3");
  auto mine = store->session(make_claim("a"));
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "0");
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  url.database = 99;
  auto missing = open_redis_store(url, "klock:")->session(make_claim("a"))->attempt(true, soon(), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::config);
}

TEST_F(RedisSession, LocalhostNeedsNoLookUp) {
  RedisUrl url = server().redis_url();
  url.host = "localhost";
  EXPECT_TRUE(is_held(open_redis_store(url, "klock:")->session(make_claim("a"))->attempt(false, soon(), {})));
}

TEST_F(RedisSession, OneWriteAcquiresAndOneReleases) {
  auto warm = session("w");
  warm->attempt(true, soon(), {});
  warm->release(soon(), {});
  server().command({"CONFIG", "RESETSTAT"});
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  const std::string stats = server().command({"INFO", "commandstats"});
  EXPECT_NE(stats.find("cmdstat_evalsha:calls=2,"), std::string::npos) << stats;
  EXPECT_EQ(stats.find("cmdstat_eval:"), std::string::npos) << stats;
}

}  // namespace
}  // namespace klock::test
