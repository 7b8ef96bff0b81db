// SPDX-License-Identifier: MIT
// Exclusive locks of a user who may not run scripts, together with those of users who may.
#include "support/eventually.hpp"
#include "support/redis_fixture.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

class RedisPlain : public RedisTest {
 protected:
  void SetUp() override {
    RedisTest::SetUp();
    plain_ = store_without("-@scripting");
  }

  static std::unique_ptr<LockStore> store_without(const std::string& right) {
    EXPECT_EQ(
        server().command({"ACL", "SETUSER", "ann", "reset", "on", ">geheim", "~*", "&*", "+@all", right}),
        "OK");
    RedisUrl url = server().redis_url();
    url.user = "ann";
    url.password = Secret("geheim");
    return open_redis_store(url, "klock:");
  }

  LockStore& plain() { return *plain_; }
  std::unique_ptr<LockSession> plain_session(int ttl_ms = 10000) {
    return plain().session(make_claim("a", ttl_ms));
  }
  static Result<Attempt> once(LockSession& session) { return session.attempt(false, soon(), {}); }
  static bool is_renewed(const Result<Renewal>& renewal) {
    return renewal && std::holds_alternative<Renewed>(*renewal);
  }

 private:
  std::unique_ptr<LockStore> plain_;
};

TEST_F(RedisPlain, ALockIsTakenRenewedAndReleased) {
  auto mine = plain_session();
  const auto attempt = once(*mine);
  ASSERT_TRUE(is_held(attempt)) << attempt.error().what;
  EXPECT_GT(lease_of(attempt).deadline, in_ms(9000));
  EXPECT_EQ(immortal_keys(), "");
  const LockState shown = state("a");
  ASSERT_EQ(shown.holders.size(), 1u);
  EXPECT_EQ(shown.holders[0].who.host, "alpha");
  EXPECT_EQ(shown.holders[0].fence, lease_of(attempt).fence);
  const auto listed = store().list("", soon(), {});
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1u);

  auto other = plain_session();
  const auto busy = once(*other);
  ASSERT_TRUE(is_busy(busy));
  EXPECT_EQ(busy_of(busy).holder->who.host, "alpha");
  EXPECT_NE(busy_of(busy).why_polling, "");
  EXPECT_TRUE(is_renewed(mine->renew(soon(), {})));
  EXPECT_TRUE(is_renewed(mine->confirm(soon(), {})));
  EXPECT_EQ(other->release(soon(), {}), Released::not_mine);
  EXPECT_TRUE(is_renewed(mine->confirm(soon(), {})));
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(mine->release(soon(), {}), Released::gone);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisPlain, AServerThatHasNoScripts) {
  RedisServer bare({"--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""});
  auto store = open_redis_store(bare.redis_url(), "klock:");
  auto mine = store->session(make_claim("a"));
  ASSERT_TRUE(is_held(once(*mine)));
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
}

TEST_F(RedisPlain, BothWaysExcludeEachOtherAndTheFenceGrows) {
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    for (LockStore* const mine : {&store(), &plain()}) {
      LockStore& other = mine == &store() ? plain() : store();
      auto holder = mine->session(make_claim("a"));
      const auto attempt = once(*holder);
      ASSERT_TRUE(is_held(attempt));
      EXPECT_GT(lease_of(attempt).fence, last);
      last = lease_of(attempt).fence;
      EXPECT_TRUE(is_busy(once(*other.session(make_claim("a")))));
      EXPECT_EQ(holder->release(soon(), {}), Released::done);
    }
  }
}

TEST_F(RedisPlain, ReadersWhoseMarkIsGoneAreNotPassedOver) {
  Claim claim = make_claim("a");
  claim.mode = Mode::shared;
  auto reader = store().session(claim);
  ASSERT_TRUE(is_held(once(*reader)));
  server().command({"DEL", "klock:a"});
  EXPECT_TRUE(is_busy(once(*plain_session())));
}

TEST_F(RedisPlain, ReadersWhoseLeaseHasEndedAreNotInTheWay) {
  Claim claim = make_claim("a", 200);
  claim.mode = Mode::shared;
  auto expired = store().session(claim);
  ASSERT_TRUE(is_held(once(*expired)));
  claim = make_claim("a", 60000);
  claim.mode = Mode::shared;
  auto reader = store().session(claim);
  ASSERT_TRUE(is_held(once(*reader)));
  EXPECT_EQ(reader->release(soon(), {}), Released::done);
  EXPECT_TRUE(eventually([] { return server().command({"EXISTS", "klock:a"}) == "0"; }));
  ASSERT_EQ(server().command({"EXISTS", "{klock:a}:readers"}), "1");
  EXPECT_TRUE(is_held(once(*plain_session())));
}

// Of a run within whose user may run scripts.
TEST_F(RedisPlain, AHoldStaysForThoseWhoHaveJoinedIt) {
  const Claim outer = make_claim("a");
  auto holder = plain().session(outer);
  ASSERT_TRUE(is_held(once(*holder)));
  Claim inner = make_claim("a");
  inner.ancestors = {outer.token};
  auto within = store().session(inner);
  const auto joined = once(*within);
  ASSERT_TRUE(is_held(joined));
  EXPECT_TRUE(lease_of(joined).joined);
  EXPECT_EQ(holder->release(soon(), {}), Released::done);
  EXPECT_TRUE(is_busy(once(*plain_session())));
  EXPECT_TRUE(is_busy(once(*session("a"))));
  EXPECT_TRUE(is_renewed(within->renew(soon(), {})));
  const auto renewal = holder->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(within->release(soon(), {}), Released::done);
  EXPECT_TRUE(is_held(once(*plain_session())));
}

// It was in the queue while its user could still run scripts.
TEST_F(RedisPlain, AGrantIsTakenAsAFreeLockIs) {
  for (const bool is_completed : {false, true}) {
    SetUp();
    auto both = store_without("-info");
    Claim claim = make_claim("a");
    claim.once = Once{"k", Milliseconds(60000)};
    auto first = session("a");
    const auto held = once(*first);
    ASSERT_TRUE(is_held(held));
    auto waiter = both->session(claim);
    ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
    server().command({"ACL", "SETUSER", "ann", "-@scripting"});
    if (is_completed) server().command({"SET", "{klock:a}:once:k", "{}", "PX", "60000"});
    EXPECT_EQ(first->release(soon(), {}), Released::done);
    ASSERT_EQ(server().command({"GET", "klock:a"}), claim.token.value) << "granted";
    const auto attempt = waiter->attempt(true, soon(), {});
    ASSERT_TRUE(attempt);
    if (is_completed) {
      EXPECT_TRUE(std::holds_alternative<Completed>(*attempt));
      waiter->withdraw(soon());
      EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "0");
      continue;
    }
    ASSERT_TRUE(is_held(attempt));
    EXPECT_GT(lease_of(attempt).fence, lease_of(held).fence);
    EXPECT_EQ(state("a").holders.at(0).fence, lease_of(attempt).fence);
    EXPECT_EQ(waiter->release(soon(), {}), Released::done);
    server().command({"DEL", "{klock:a}:once:k"});
    EXPECT_EQ(keys_left(), "");
  }
}

TEST_F(RedisPlain, AnotherProgramsLockIsBusy) {
  server().command({"HSET", "klock:a", "uuid:1", "1"});
  const auto attempt = once(*plain_session());
  ASSERT_TRUE(is_busy(attempt));
  EXPECT_TRUE(busy_of(attempt).holder->foreign);
  EXPECT_EQ(server().command({"TYPE", "klock:a"}), "hash");
}

TEST_F(RedisPlain, AReleaseWakesTheFirstWhoWaitsInTheQueue) {
  auto mine = plain_session(60000);
  ASSERT_TRUE(is_held(once(*mine)));
  auto waiter = session("a");
  ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_TRUE(wait_for_lock(*waiter, 10000));
}

TEST_F(RedisPlain, AWaiterGetsItAfterARelease) {
  auto mine = session("a", 60000);
  ASSERT_TRUE(is_held(once(*mine)));
  auto waiter = plain_session();
  ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_TRUE(wait_for_lock(*waiter, 10000));
}

TEST_F(RedisPlain, LossIsTold) {
  auto mine = plain_session();
  ASSERT_TRUE(is_held(once(*mine)));
  server().command({"DEL", "klock:a"});
  auto renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  server().command({"SET", "klock:a", "somebody"});
  renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<NotMine>(*renewal));
  EXPECT_EQ(mine->release(soon(), {}), Released::not_mine);
  EXPECT_EQ(server().command({"GET", "klock:a"}), "somebody");
}

TEST_F(RedisPlain, AVanishedRecordIsTakenBackIfNobodyWasInBetween) {
  Claim claim = make_claim("a");
  claim.reclaim = true;
  auto mine = plain().session(claim);
  const auto attempt = once(*mine);
  ASSERT_TRUE(is_held(attempt));
  server().command({"DEL", "klock:a"});
  auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(is_renewed(renewal));
  EXPECT_TRUE(std::get<Renewed>(*renewal).reclaimed);
  EXPECT_EQ(state("a").holders.at(0).fence, lease_of(attempt).fence);

  server().command({"DEL", "klock:a"});
  auto other = session("a");
  ASSERT_TRUE(is_held(once(*other)));
  EXPECT_EQ(other->release(soon(), {}), Released::done);
  renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
}

TEST_F(RedisPlain, AnAdministratorsOrderIsObeyed) {
  auto mine = plain_session();
  ASSERT_TRUE(is_held(once(*mine)));
  const Holder shown = state("a").holders.at(0);
  ASSERT_EQ(store().ask_stop({"a", "klock:a"}, shown, {"bob", "why"}, soon()), Eviction::done);
  auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(is_renewed(renewal));
  EXPECT_EQ(std::get<Renewed>(*renewal).stop.value().by, "bob");
  ASSERT_EQ(store().remove({"a", "klock:a"}, shown, {"bob", "now"}, soon()), Eviction::done);
  renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(std::get<Gone>(*renewal).removed.value().reason, "now");
}

TEST_F(RedisPlain, CompletedWorkIsNotDoneAgain) {
  Claim claim = make_claim("a");
  claim.once = Once{"k", Milliseconds(60000)};
  auto mine = plain().session(claim);
  ASSERT_TRUE(is_held(once(*mine)));
  EXPECT_EQ(mine->complete(soon(), {}), Released::done);
  for (LockStore* const store : {&plain(), &this->store()}) {
    claim.token = make_claim("a").token;
    const auto attempt = once(*store->session(claim));
    ASSERT_TRUE(attempt);
    ASSERT_TRUE(std::holds_alternative<Completed>(*attempt));
    EXPECT_EQ(std::get<Completed>(*attempt).marker.who.host, "alpha");
  }
  EXPECT_EQ(immortal_keys(), "");
}

TEST_F(RedisPlain, MinHoldKeepsTheNameTaken) {
  Claim claim = make_claim("a");
  claim.min_hold = Milliseconds(60000);
  auto mine = plain().session(claim);
  ASSERT_TRUE(is_held(once(*mine)));
  ASSERT_TRUE(mine->count_min_hold(true));
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(state("a").occupancy, Occupancy::cooldown);
  for (LockStore* const store : {&plain(), &this->store()}) {
    const auto attempt = once(*store->session(make_claim("a")));
    ASSERT_TRUE(is_busy(attempt));
    EXPECT_TRUE(busy_of(attempt).cooldown);
  }
  const auto renewal = mine->renew(soon(), {});
  EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
}

// By a session that only has the token.
TEST_F(RedisPlain, TheTokenReleasesAScriptsHoldAndTellsWhoeverKeepsIt) {
  Claim claim = make_claim("a");
  claim.for_script = true;
  auto keeper = plain().session(claim);
  ASSERT_TRUE(is_held(once(*keeper)));
  Claim known = claim;
  known.by_token = true;
  EXPECT_TRUE(is_renewed(plain().session(known)->confirm(soon(), {})));
  EXPECT_EQ(plain().session(known)->release(soon(), {}), Released::done);
  const auto renewal = keeper->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_TRUE(std::get<Gone>(*renewal).removed.value().released);
}

TEST_F(RedisPlain, TheTokenAsksARunToEndFirst) {
  const Claim claim = make_claim("a");
  auto mine = plain().session(claim);
  ASSERT_TRUE(is_held(once(*mine)));
  Claim known = claim;
  known.by_token = true;
  std::thread run([&] {
    EXPECT_TRUE(eventually(
        [&] {
          const auto renewal = mine->renew(soon(), {});
          return is_renewed(renewal) && std::get<Renewed>(*renewal).stop;
        },
        10000));
    EXPECT_EQ(mine->release(soon(), {}), Released::done);
  });
  EXPECT_EQ(plain().session(known)->release(in_ms(20000), {}), Released::done);
  run.join();
}

TEST_F(RedisPlain, TheGuardReleasesByTheTokenAlone) {
  const Claim claim = make_claim("a");
  auto mine = plain().session(claim);
  ASSERT_TRUE(is_held(once(*mine)));
  EXPECT_EQ(plain().session(claim)->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisPlain, ADetachedHoldGetsShorterWhenThatIsAsked) {
  Claim claim = make_claim("a", 60000);
  claim.detached = true;
  ASSERT_TRUE(is_held(once(*plain().session(claim))));
  claim.ttl = Milliseconds(5000);
  const auto renewal = plain().session(claim)->renew(soon(), {});
  ASSERT_TRUE(is_renewed(renewal));
  EXPECT_LT(std::get<Renewed>(*renewal).deadline, in_ms(5100));
  EXPECT_LE(server().number({"PTTL", "klock:a"}), 5000);
}

TEST_F(RedisPlain, WhatNeedsScriptsIsRefused) {
  const auto refused = [&](const Claim& claim) {
    const auto attempt = once(*plain().session(claim));
    return !attempt && attempt.error().kind == ErrorKind::refused;
  };
  Claim shared = make_claim("a");
  shared.mode = Mode::shared;
  Claim slots = make_claim("a");
  slots.mode = Mode::slots;
  slots.slots = 2;
  Claim hurried = make_claim("a");
  hurried.max_waiters = 0;
  Claim copied = make_claim("a");
  copied.wait_replicas = 1;
  for (const Claim& claim : {shared, slots, hurried, copied}) EXPECT_TRUE(refused(claim));
  auto mine = plain_session();
  const Claim outer = make_claim("a");
  ASSERT_TRUE(is_held(once(*plain().session(outer))));
  Claim nested = make_claim("a");
  nested.ancestors = {outer.token};
  EXPECT_TRUE(refused(nested));
}

TEST_F(RedisPlain, WithoutTransactionsNothingIsTaken) {
  for (const char* missing : {"-watch", "-multi", "-exec", "-set", "-hset", "-del", "-hdel", "-pexpire"}) {
    ASSERT_EQ(server().command({"ACL", "SETUSER", "ann", "reset", "on", ">geheim", "~*", "&*", "+@all",
                                "-@scripting", missing}),
              "OK");
    const auto attempt = once(*plain_session());
    ASSERT_FALSE(attempt) << missing;
    EXPECT_EQ(attempt.error().kind, ErrorKind::refused) << missing << attempt.error().what;
    EXPECT_EQ(keys_left(), "") << missing;
  }
}

TEST_F(RedisPlain, ATypeThatIsInTheWayLeavesNothingHeld) {
  for (const char* key : {"{klock:a}:holders", "{klock:a}:fence"}) {
    server().command({"RPUSH", key, "x"});
    const auto attempt = once(*plain_session());
    ASSERT_FALSE(attempt);
    EXPECT_EQ(attempt.error().kind, ErrorKind::refused);
    EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "0");
    server().command({"DEL", key});
  }
}

TEST_F(RedisPlain, AReleaseComesAfterWhatWasSentBefore) {
  auto late = plain_session(60000);
  const auto nothing = late->confirm(soon(), {});  // connected by now
  ASSERT_TRUE(nothing && std::holds_alternative<Gone>(*nothing));
  server().freeze();
  EXPECT_FALSE(late->attempt(false, in_ms(300), {}));
  std::thread thaw([] {
    std::this_thread::sleep_for(Milliseconds(200));
    server().thaw();
  });
  late->withdraw(in_ms(5000));
  thaw.join();
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisPlain, ContendersOfBothKindsNeverOverlap) {
  constexpr int k_rounds = 25;
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::vector<std::thread> contenders;
  for (int i = 0; i < 6; ++i) {
    contenders.emplace_back([&, i] {
      for (int round = 0; round < k_rounds; ++round) {
        auto mine = i < 4 ? plain_session() : session("a");
        if (!wait_for_lock(*mine, 60000)) {
          ADD_FAILURE() << "not within a minute";
          return;
        }
        if (++inside != 1) ++overlaps;
        std::this_thread::yield();
        --inside;
        EXPECT_EQ(mine->release(in_ms(10000), {}), Released::done);
      }
    });
  }
  for (std::thread& contender : contenders) contender.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(immortal_keys(), "");
}

}  // namespace
}  // namespace klock::test
