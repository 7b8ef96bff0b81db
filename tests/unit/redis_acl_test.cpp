// SPDX-License-Identifier: MIT
#include "support/redis_fixture.hpp"

#include <thread>

namespace klock::test {
namespace {

class RedisAcl : public RedisTest {
 protected:
  // A store whose user has these rights.
  std::unique_ptr<LockStore> store_as(std::vector<std::string> rights) {
    rights.insert(rights.begin(), {"ACL", "SETUSER", "ann", "reset", "on", ">geheim"});
    EXPECT_EQ(server().command(rights), "OK");
    RedisUrl url = server().redis_url();
    url.user = "ann";
    url.password = Secret("geheim");
    return open_redis_store(url, "klock:");
  }

  void expect_refused(LockStore& store) {
    for (const bool enqueue : {false, true}) {
      const auto attempt = store.session(make_claim("a"))->attempt(enqueue, in_ms(1000), {});
      ASSERT_FALSE(attempt);
      EXPECT_EQ(attempt.error().kind, ErrorKind::refused) << attempt.error().what;
      EXPECT_EQ((attempt.error().what + attempt.error().hint).find("geheim"), std::string::npos);
    }
    EXPECT_EQ(keys_left(), "");
  }
};

TEST_F(RedisAcl, UserWithRightsOnTheLockAlone) {
  auto store = store_as({"~klock:a", "~{klock:a}:*", "&{klock:a}:*", "+@all", "-client"});
  auto mine = store->session(make_claim("a"));
  ASSERT_TRUE(is_held(mine->attempt(true, in_ms(1000), {})));
  auto waiter = store->session(make_claim("a"));
  ASSERT_TRUE(is_busy(waiter->attempt(true, in_ms(1000), {})));
  const auto renewal = mine->renew(in_ms(1000), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_EQ(mine->release(in_ms(1000), {}), Released::done);
  const Instant start = BootClock::now();
  EXPECT_TRUE(wait_for_lock(*waiter, 2000));
  EXPECT_LT(ms_since(start), 100 * slow_factor());
  auto guard = store->session(make_claim("a"));
  EXPECT_EQ(guard->release(in_ms(1000), {}), Released::not_mine);
  EXPECT_EQ(waiter->release(in_ms(1000), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

// What ACL SETUSER gives by default on 7.0: no channels.
TEST_F(RedisAcl, UserWithoutChannelsPolls) {
  for (const std::string missing : {"+@all", "-multi", "-exec", "-subscribe"}) {
    auto store = store_as({"~*", "+@all", missing});
    if (missing == "-multi" || missing == "-exec") store = store_as({"~*", "&*", "+@all", missing});
    auto mine = store->session(make_claim("a"));
    ASSERT_TRUE(is_held(mine->attempt(true, in_ms(1000), {}))) << missing;
    auto waiter = store->session(make_claim("a"));
    const auto busy = waiter->attempt(true, in_ms(1000), {});
    ASSERT_TRUE(is_busy(busy)) << missing;
    EXPECT_LT(busy_of(busy).look_again, in_ms(260));
    EXPECT_EQ(mine->await_news(in_ms(1200), {}), Wake::timeout);
    ASSERT_TRUE(is_busy(waiter->attempt(true, in_ms(1000), {})));
    EXPECT_EQ(mine->release(in_ms(1000), {}), Released::done);
    // A newcomer does not get in between two polls.
    EXPECT_TRUE(is_busy(session("a")->attempt(false, in_ms(1000), {}))) << missing;
    const Instant start = BootClock::now();
    EXPECT_TRUE(wait_for_lock(*waiter, 3000)) << missing;
    EXPECT_LT(ms_since(start), 400 * slow_factor());
    EXPECT_EQ(waiter->release(in_ms(1000), {}), Released::done);
    EXPECT_EQ(keys_left(), "");
  }
}

// Who may not publish wakes nobody: those who wait for him know.
TEST_F(RedisAcl, WhoWaitsForOneWhoMayNotPublishLooksAgain) {
  for (const char* rights : {"-publish", "-@scripting"}) {
    server().command({"FLUSHALL"});
    auto store = store_as({"~*", "&*", "+@all", rights});
    auto mute = store->session(make_claim("a", 60000));
    ASSERT_TRUE(is_held(mute->attempt(true, in_ms(1000), {}))) << rights;
    auto waiter = session("a", 60000);
    const auto busy = waiter->attempt(true, in_ms(1000), {});
    ASSERT_TRUE(is_busy(busy));
    EXPECT_LT(busy_of(busy).look_again, in_ms(1000));
    EXPECT_EQ(mute->release(in_ms(1000), {}), Released::done);
    EXPECT_TRUE(wait_for_lock(*waiter, 10000));
    EXPECT_EQ(waiter->release(in_ms(1000), {}), Released::done);
  }
}

TEST_F(RedisAcl, MissingKeysOrCommandsAreRefusedBeforeAnythingIsTaken) {
  expect_refused(*store_as({"~klock:*", "&*", "+@all"}));
  expect_refused(*store_as({"~other:*", "&*", "+@all"}));
  expect_refused(*store_as({"~*", "&*", "+@all", "-@scripting", "-@transaction"}));
  expect_refused(*store_as({"~*", "&*", "+@all", "-set"}));
}

// Whatever command is missing: refused, and whoever asks next, at once, gets the lock.
TEST_F(RedisAcl, AMissingCommandLeavesNothingHeld) {
  for (const char* missing : {"-del", "-hdel", "-zrem", "-hget", "-hset", "-pexpire", "-get", "-zrange"}) {
    auto store = store_as({"~*", "&*", "+@all", missing});
    Claim claim = make_claim("a");
    claim.min_hold = Milliseconds(300);
    const auto attempt = store->session(claim)->attempt(false, in_ms(1000), {});
    ASSERT_FALSE(attempt) << missing;
    EXPECT_EQ(attempt.error().kind, ErrorKind::refused) << missing;
    EXPECT_TRUE(eventually([] { return server().command({"EXISTS", "klock:a"}) == "0"; }, 500)) << missing;
    EXPECT_EQ(immortal_keys(), "") << missing;
  }
}

TEST_F(RedisAcl, WrongOrMissingOrNeedlessPasswordIsRefused) {
  store_as({"~*", "&*", "+@all"});
  RedisUrl url = server().redis_url();
  url.user = "ann";
  url.password = Secret("geheim2");
  expect_refused(*open_redis_store(url, "klock:"));
  url.user = "";
  expect_refused(*open_redis_store(url, "klock:"));

  RedisServer guarded({"--requirepass", "geheim"});
  expect_refused(*open_redis_store(guarded.redis_url(), "klock:"));
  url = guarded.redis_url();
  url.password = Secret("geheim3");
  expect_refused(*open_redis_store(url, "klock:"));
  url.password = Secret("geheim");
  EXPECT_TRUE(
      is_held(open_redis_store(url, "klock:")->session(make_claim("a"))->attempt(true, in_ms(1000), {})));
}

// A server that refuses AUTH or SELECT executes what follows, as the default user or in database 0.
TEST_F(RedisAcl, WhatIsSentWithARefusedLoginTakesNoEffect) {
  session("warm")->attempt(true, in_ms(1000), {});
  auto mine = session("held");
  ASSERT_TRUE(is_held(mine->attempt(true, in_ms(1000), {})));
  const Holder shown = state("held").holders.at(0);
  ASSERT_EQ(store().ask_stop({"held", "klock:held"}, shown, {"bob", ""}, in_ms(1000)), Eviction::done);
  ASSERT_EQ(server().command({"DEL", "{klock:held}:requests"}), "1");
  RedisUrl wrong = server().redis_url();
  wrong.password = Secret("x");
  RedisUrl missing = server().redis_url();
  missing.database = 99;
  for (const RedisUrl& url : {wrong, missing}) {
    auto elsewhere = open_redis_store(url, "klock:");
    for (const bool enqueue : {false, true}) {
      EXPECT_FALSE(elsewhere->session(make_claim("a"))->attempt(enqueue, in_ms(1000), {}));
      EXPECT_EQ(server().command({"EXISTS", "klock:a", "{klock:a}:holders"}), "0");
      EXPECT_FALSE(elsewhere->session(make_claim("held"))->attempt(enqueue, in_ms(1000), {}));
      EXPECT_EQ(server().command({"EXISTS", "{klock:held}:queue", "{klock:held}:waiters"}), "0");
    }
    EXPECT_FALSE(elsewhere->ask_stop({"held", "klock:held"}, shown, {"bob", ""}, in_ms(1000)));
    EXPECT_FALSE(elsewhere->remove({"held", "klock:held"}, shown, {"bob", ""}, in_ms(1000)));
    server().command({"SET", "{klock:held}:once:k", "{}"});
    EXPECT_FALSE(elsewhere->clear_marker({"held", "klock:held"}, "k", in_ms(1000)));
    EXPECT_EQ(server().command({"DEL", "{klock:held}:once:k"}), "1");
    EXPECT_EQ(server().command({"EXISTS", "klock:held", "{klock:held}:requests"}), "1");
  }
}

// No script, no TIME, no PUBSUB, nothing but reading.
TEST_F(RedisAcl, ReadersMayLook) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, in_ms(1000), {})));
  auto waiter = session("a");
  ASSERT_TRUE(is_busy(waiter->attempt(true, in_ms(1000), {})));
  server().command({"HSET", "klock:h", "uuid:1", "1"});
  auto store = store_as({"%R~*", "+@read"});
  const auto shown = store->inspect({"a", "klock:a"}, in_ms(1000), {});
  ASSERT_TRUE(shown) << shown.error().what;
  EXPECT_EQ(shown->occupancy, Occupancy::held);
  EXPECT_EQ(shown->holders.at(0).who.host, "alpha");
  ASSERT_TRUE(shown->holders.at(0).held);
  EXPECT_LT(shown->holders.at(0).held->count(), 5000);
  EXPECT_EQ(shown->waiters.size(), 1u);
  const auto foreign = store->inspect({"h", "klock:h"}, in_ms(1000), {});
  ASSERT_TRUE(foreign) << foreign.error().what;
  EXPECT_EQ(foreign->holders.at(0).what, "hash with 1 field \"uuid:1\"");
  const auto all = store->list("", in_ms(1000), {});
  ASSERT_TRUE(all) << all.error().what;
  EXPECT_EQ(all->size(), 1u);
  const auto attempt = store->session(make_claim("a"))->attempt(false, in_ms(1000), {});
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::refused);
}

TEST_F(RedisAcl, WhoMayNotReadAnythingIsRefusedAList) {
  session("a")->attempt(true, in_ms(1000), {});
  for (const char* missing : {"-getrange", "-hgetall"}) {
    const auto all = store_as({"~*", "+@all", missing})->list("", in_ms(1000), {});
    ASSERT_FALSE(all) << missing;
    EXPECT_EQ(all.error().kind, ErrorKind::refused);
  }
}

// What one may not read is refused by status, and left out by list.
TEST_F(RedisAcl, AListShowsWhatMayBeRead) {
  for (const char* name : {"mine", "theirs"}) session(name)->attempt(true, in_ms(1000), {});
  auto store = store_as({"%R~klock:mine", "%R~{klock:mine}:*", "%R~{klock:}:index", "+@read"});
  const auto all = store->list("", in_ms(1000), {});
  ASSERT_TRUE(all) << all.error().what;
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->at(0).lock.name, "mine");
  const auto other = store->inspect({"theirs", "klock:theirs"}, in_ms(1000), {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::refused);
}

}  // namespace
}  // namespace klock::test
