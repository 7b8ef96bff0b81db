// SPDX-License-Identifier: MIT
#include "support/redis_fixture.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

class RedisStore : public RedisTest {
 protected:
  const LockName lock_{"a", "klock:a"};
  const StopRequest request_{"bob@beta", "stuck"};

  Result<Eviction> ask(const Holder& shown) { return store().ask_stop(lock_, shown, request_, soon()); }
  Result<Eviction> remove(const Holder& shown) { return store().remove(lock_, shown, request_, soon()); }
};

TEST_F(RedisStore, DescribesItselfWithoutThePassword) {
  RedisUrl url = server().redis_url();
  url.host = "::1";
  url.port = 7000;
  url.user = "ann";
  url.password = Secret("geheim");
  url.database = 2;
  EXPECT_EQ(open_redis_store(url, "")->describe(), "redis://ann:***@[::1]:7000/2");
}

TEST_F(RedisStore, InspectShowsHolderAndWaitersInOrder) {
  EXPECT_EQ(state("a").occupancy, Occupancy::free);
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  Claim second = make_claim("a");
  second.who.user = "ben";
  auto first_waiter = store().session(second);
  ASSERT_TRUE(is_busy(first_waiter->attempt(true, soon(), {})));
  auto second_waiter = session("a");
  ASSERT_TRUE(is_busy(second_waiter->attempt(true, soon(), {})));
  const LockState shown = state("a");
  EXPECT_EQ(shown.occupancy, Occupancy::held);
  ASSERT_EQ(shown.holders.size(), 1u);
  EXPECT_EQ(shown.holders[0].who.host, "alpha");
  EXPECT_EQ(shown.holders[0].who.pid, 4711);
  EXPECT_EQ(shown.holders[0].who.message, "nightly");
  EXPECT_NEAR(static_cast<double>(shown.holders[0].since_wall_ms), static_cast<double>(wall_ms()), 2000);
  ASSERT_TRUE(shown.holders[0].expires_in);
  EXPECT_GT(shown.holders[0].expires_in->count(), 9000);
  ASSERT_EQ(shown.waiters.size(), 2u);
  EXPECT_EQ(shown.waiters[0].who.user, "ben");
  EXPECT_EQ(shown.waiters[1].who.user, "ann");
}

TEST_F(RedisStore, ForeignLocksOfEveryTypeAreBusyShownAndRemovedExactly) {
  struct Case {
    std::vector<std::string> make;
    std::string what;
    std::string members = {};  // which a waiter does not look for
  };
  const Case cases[] = {
      {{"SET", "klock:a", "abc", "PX", "60000"}, "string \"abc\""},
      {{"SET", "klock:a", "abc"}, "string \"abc\""},
      {{"HSET", "klock:a", "uuid:1", "1"}, "hash with 1 field", " \"uuid:1\""},
      {{"ZADD", "klock:a", "1", "x", "2", "y"}, "sorted set with 2 members", " \"x\", \"y\""},
      {{"RPUSH", "klock:a", "x"}, "list with 1 element"},
      {{"SADD", "klock:a", "x"}, "set with 1 member"},
      {{"XADD", "klock:a", "*", "f", "v"}, "stream with 1 entry"},
  };
  for (const Case& one : cases) {
    server().command({"FLUSHALL"});
    server().command(one.make);
    const bool expires = server().number({"PTTL", "klock:a"}) > 0;
    auto mine = session("a");
    const auto attempt = mine->attempt(true, soon(), {});
    ASSERT_TRUE(is_busy(attempt)) << one.what;
    EXPECT_TRUE(busy_of(attempt).holder->foreign);
    EXPECT_EQ(busy_of(attempt).holder->what, one.what);
    EXPECT_LT(busy_of(attempt).look_again, in_ms(150)) << one.what;
    const LockState shown = state("a");
    ASSERT_EQ(shown.holders.size(), 1u) << one.what;
    EXPECT_EQ(shown.holders[0].what, one.what + one.members);
    EXPECT_EQ(shown.holders[0].expires_in.has_value(), expires) << one.what;
    EXPECT_EQ(shown.holders[0].id.size(), 12u);
    EXPECT_EQ(ask(shown.holders[0]), Eviction::foreign) << one.what;

    Holder other = shown.holders[0];
    other.fingerprint = "0";
    EXPECT_EQ(remove(other), Eviction::changed) << one.what;
    EXPECT_EQ(server().command({"EXISTS", "klock:a"}), "1") << one.what;
    EXPECT_EQ(remove(shown.holders[0]), Eviction::done) << one.what;
    EXPECT_TRUE(wait_for_lock(*mine, 1000)) << one.what;
  }
}

TEST_F(RedisStore, ForeignReleaseIsNoticedByPolling) {
  server().command({"SET", "klock:a", "abc"});
  auto mine = session("a");
  ASSERT_TRUE(is_busy(mine->attempt(true, soon(), {})));
  server().command({"DEL", "klock:a"});
  const Instant start = BootClock::now();
  ASSERT_TRUE(wait_for_lock(*mine, 3000));
  EXPECT_LT(ms_since(start), 250 * slow_factor());
}

TEST_F(RedisStore, AForeignClientIsExcluded) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  EXPECT_EQ(server().command({"SET", "klock:a", "theirs", "NX", "PX", "1000"}), "(nil)");
}

TEST_F(RedisStore, LongForeignValuesAreCut) {
  server().command({"SET", "klock:a", std::string(100000, 'x')});
  EXPECT_EQ(state("a").holders.at(0).what, "string \"" + std::string(100, 'x') + "\"...");
}

TEST_F(RedisStore, ATokenWhoseDetailsAreLostIsNotGivenAway) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  const std::string token = server().command({"GET", "klock:a"});
  server().command({"DEL", "{klock:a}:holders"});
  const Holder shown = state("a").holders.at(0);
  EXPECT_TRUE(shown.foreign);
  EXPECT_EQ(shown.what, "string \"" + token.substr(0, 12) + "\"...");
  EXPECT_EQ(busy_of(session("a")->attempt(false, soon(), {})).holder->what, shown.what);
}

TEST_F(RedisStore, LongForeignValuesAreRemovedToo) {
  server().command({"SET", "klock:a", std::string(100000, 'x')});
  EXPECT_EQ(remove(state("a").holders.at(0)), Eviction::done);
}

// Somebody else's keys in the place of klock's own must not hide this lock nor the others.
TEST_F(RedisStore, DamagedAuxiliaryKeysAreOverlooked) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto other = session("b");
  ASSERT_TRUE(is_held(other->attempt(true, soon(), {})));
  for (const char* part : {"{klock:a}:queue", "{klock:a}:waiters", "{klock:a}:holders"}) {
    server().command({"SET", part, "x"});
    EXPECT_EQ(state("a").occupancy, Occupancy::held) << part;
    const auto all = store().list("", soon(), {});
    ASSERT_TRUE(all) << all.error().what;
    EXPECT_EQ(all->size(), 2u) << part;
  }
  server().command({"SET", "{klock:}:index", "x"});
  const auto all = store().list("", soon(), {});
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().kind, ErrorKind::refused);
  EXPECT_NE(all.error().what.find("{klock:}:index"), std::string::npos);
}

// Reading is more than one command: what changes hands meanwhile must not look like somebody else's lock.
TEST_F(RedisStore, ALockThatChangesHandsIsNeverShownAsForeign) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      auto mine = session("a");
      if (is_held(mine->attempt(false, soon(), {}))) mine->release(soon(), {});
    }
  });
  for (int i = 0; i < 300; ++i)
    for (const Holder& holder : state("a").holders) EXPECT_FALSE(holder.foreign) << holder.what;
  stop = true;
  busy.join();
}

TEST_F(RedisStore, AskedHolderHearsAtOnceWhoAsked) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  ASSERT_EQ(ask(state("a").holders.at(0)), Eviction::done);
  const Instant start = BootClock::now();
  ASSERT_EQ(mine->await_news(in_ms(5000), {}), Wake::news);
  EXPECT_LT(ms_since(start), 100 * slow_factor());
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  ASSERT_TRUE(std::get<Renewed>(*renewal).stop);
  EXPECT_EQ(std::get<Renewed>(*renewal).stop->by, "bob@beta");
  EXPECT_EQ(std::get<Renewed>(*renewal).stop->reason, "stuck");
  EXPECT_EQ(immortal_keys(), "");
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisStore, RemovedHolderHearsAtOnceAndTheNextWaiterHolds) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto first = session("a");
  ASSERT_TRUE(is_busy(first->attempt(true, soon(), {})));
  auto second = session("a");
  ASSERT_TRUE(is_busy(second->attempt(true, soon(), {})));
  ASSERT_EQ(remove(state("a").holders.at(0)), Eviction::done);
  ASSERT_EQ(mine->await_news(in_ms(5000), {}), Wake::news);
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<NotMine>(*renewal));
  ASSERT_TRUE(std::get<NotMine>(*renewal).removed);
  EXPECT_EQ(std::get<NotMine>(*renewal).removed->by, "bob@beta");
  EXPECT_TRUE(wait_for_lock(*first, 1000));
  EXPECT_EQ(second->await_news(in_ms(50), {}), Wake::timeout);
  EXPECT_EQ(mine->release(soon(), {}), Released::not_mine);
}

TEST_F(RedisStore, ARemovedHoldIsNotReclaimed) {
  Claim claim = make_claim("a");
  claim.reclaim = true;
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  ASSERT_EQ(remove(state("a").holders.at(0)), Eviction::done);
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_TRUE(std::get<Gone>(*renewal).removed);
}

TEST_F(RedisStore, EvictionOfSomebodyElseOrNobodyIsRefused) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  const Holder shown = state("a").holders.at(0);
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  EXPECT_EQ(ask(shown), Eviction::gone);
  EXPECT_EQ(remove(shown), Eviction::gone);
  auto other = session("a");
  ASSERT_TRUE(is_held(other->attempt(true, soon(), {})));
  EXPECT_EQ(ask(shown), Eviction::changed);
  EXPECT_EQ(remove(shown), Eviction::changed);
  EXPECT_EQ(other->release(soon(), {}), Released::done);
}

TEST_F(RedisStore, CooldownCanBeRemovedButNotAsked) {
  Claim claim = make_claim("a");
  claim.min_hold = Milliseconds(60000);
  auto mine = store().session(claim);
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  ASSERT_TRUE(mine->count_min_hold(true));
  ASSERT_EQ(mine->release(soon(), {}), Released::done);
  const Holder shown = state("a").holders.at(0);
  EXPECT_EQ(ask(shown), Eviction::gone);
  EXPECT_EQ(remove(shown), Eviction::done);
  EXPECT_EQ(state("a").occupancy, Occupancy::free);
}

TEST_F(RedisStore, ListKnowsOnlyThisPrefixAndMatchesNames) {
  auto one = session("import/a");
  one->attempt(true, soon(), {});
  auto two = session("import/b");
  two->attempt(false, soon(), {});
  Claim keyed = make_claim("renamed");
  keyed.lock.key = "elsewhere";
  auto three = store().session(keyed);
  three->attempt(false, soon(), {});
  server().command({"SET", "klock:not-ours", "x"});
  auto released = session("gone");
  released->attempt(false, soon(), {});
  released->release(soon(), {});

  auto all = store().list("", soon(), {});
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].lock.name, "import/a");
  EXPECT_EQ((*all)[1].lock.name, "import/b");
  EXPECT_EQ((*all)[2].lock.name, "renamed");
  EXPECT_EQ((*all)[2].lock.key, "elsewhere");
  EXPECT_EQ(store().list("import/*", soon(), {})->size(), 2u);
  EXPECT_EQ(store().list("x*", soon(), {})->size(), 0u);
  EXPECT_EQ(open_redis_store(server().redis_url(), "other:")->list("", soon(), {})->size(), 0u);
}

TEST_F(RedisStore, ListOfTenThousandLocks) {
  // One klock's record, copied by the server.
  auto mine = session("seed", 60000);
  ASSERT_TRUE(is_held(mine->attempt(false, soon(), {})));
  server().command(
      {"EVAL",
       "local token = redis.call('GET', 'klock:seed') "
       "local record = redis.call('HGET', '{klock:seed}:holders', token) "
       "local at = redis.call('ZSCORE', '{klock:}:index', 'klock:seed') "
       "for i = 1, 10000 do local key = 'klock:n' .. i redis.call('SET', key, token, 'PX', 60000) "
       "redis.call('HSET', '{' .. key .. '}:holders', token, record) "
       "redis.call('ZADD', '{klock:}:index', at, key) end",
       "0"});
  const auto all = store().list("", in_ms(10000 * slow_factor()), {});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 10001u);
}

TEST_F(RedisStore, AWaitedForForeignLockIsListed) {
  server().command({"SET", "klock:a", "x"});
  auto waiter = session("a");
  ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
  const auto all = store().list("", soon(), {});
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].lock.name, "a");
  EXPECT_TRUE((*all)[0].holders.at(0).foreign);
}

TEST_F(RedisStore, TheIndexDoesNotGrowWithCrashedLocks) {
  for (int i = 0; i < 20; ++i) session("crash" + std::to_string(i), 200)->attempt(false, soon(), {});
  ASSERT_TRUE(eventually([this] { return server().command({"EXISTS", "klock:crash19"}) == "0"; }));
  auto mine = session("a");
  mine->attempt(false, soon(), {});
  EXPECT_EQ(server().command({"ZCARD", "{klock:}:index"}), "1");
}

TEST_F(RedisStore, AuxiliaryKeysShareTheHashTagOfTheLock) {
  auto mine = session("x{tag}y");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  EXPECT_EQ(server().command({"EXISTS", "klock:x{tag}y:klock:holders"}), "1");
  EXPECT_EQ(mine->release(soon(), {}), Released::done);
}

}  // namespace
}  // namespace klock::test
