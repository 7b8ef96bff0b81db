// SPDX-License-Identifier: MIT
// Over real servers, and some that behave badly.
#include "store/redlock/redlock_session.hpp"

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/redis_server.hpp"
#include "util/random.hpp"

#include <gtest/gtest.h>

namespace klock::redlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeServer;
using test::RedisServer;

Instant in(Duration time) {
  return BootClock::now() + time;
}

Claim claim_of(Duration ttl = seconds(10)) {
  Claim claim;
  claim.lock = LockName{"n", "klock:n"};
  claim.token = Token{*random_hex128()};
  claim.ttl = ttl;
  claim.who = describe_self("test", {});
  return claim;
}

RedisUrl at(std::uint16_t port) {
  RedisUrl url;
  url.host = "127.0.0.1";
  url.port = port;
  return url;
}

// Two real servers; the third is what the test wants.
class RedlockSessionTest : public testing::Test {
 protected:
  std::unique_ptr<RedlockSession> session(std::uint16_t third, Claim claim = claim_of()) {
    return std::make_unique<RedlockSession>(RedlockUrl{{first_.redis_url(), second_.redis_url(), at(third)}},
                                            "klock:", std::move(claim));
  }

  RedisServer first_;
  RedisServer second_;
};

TEST_F(RedlockSessionTest, AServerThatAcceptsAndIsSilentDelaysNothing) {
  FakeServer silent([](int fd) {
    while (!test::receive_some(fd).empty()) {
    }
  });
  auto mine = session(silent.port(), claim_of(seconds(60)));
  const Instant before = BootClock::now();
  const auto attempt = mine->attempt(false, in(seconds(30)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Lease>(*attempt));
  EXPECT_LE(std::get<Lease>(*attempt).deadline, lease_deadline(BootClock::now(), seconds(60)));
  ASSERT_TRUE(mine->renew(in(seconds(30)), {}));
  EXPECT_EQ(*mine->release(in(seconds(30)), {}), Released::done);
  mine.reset();
  EXPECT_LT(BootClock::now() - before, seconds(10));
}

TEST_F(RedlockSessionTest, NonsenseFromOneServerIsAFailureOfThatOne) {
  FakeServer odd([](int fd) {
    while (!test::receive_some(fd).empty()) test::send_text(fd, "what?\r\n");
  });
  auto mine = session(odd.port());
  const auto attempt = mine->attempt(false, in(seconds(10)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::holds_alternative<Lease>(*attempt));
  EXPECT_EQ(*mine->release(in(seconds(10)), {}), Released::done);
}

TEST_F(RedlockSessionTest, AMinorityIsGivenBackBeforeTheAttemptEnds) {
  second_.command({"SET", "klock:n", "somebody", "PX", "60000"});
  auto mine = session(test::free_port());
  const auto attempt = mine->attempt(false, in(seconds(5)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::holds_alternative<Busy>(*attempt)) << "one yes, one no, one away";
  EXPECT_EQ(first_.command({"GET", "klock:n"}), "(nil)");
}

TEST_F(RedlockSessionTest, AMajorityThatComesTooLateIsGivenBack) {
  second_.freeze();
  auto mine = session(test::free_port(), claim_of(seconds(2)));
  ASSERT_FALSE(mine->attempt(false, in(seconds(5)), {}));
  second_.thaw();
  mine.reset();
  EXPECT_TRUE(test::eventually([this] { return second_.command({"EXISTS", "klock:n"}) == "0"; }, 10000));
  EXPECT_EQ(first_.command({"EXISTS", "klock:n"}), "0");
}

TEST_F(RedlockSessionTest, TheFenceIsTheGreatestAndIsNotedByAMajority) {
  first_.command({"SET", "{klock:n}:fence", "4000000000000000"});
  auto mine = session(test::free_port());
  const auto attempt = mine->attempt(false, in(seconds(5)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_EQ(std::get<Lease>(*attempt).fence, 4'000'000'000'000'001U);
  EXPECT_EQ(second_.command({"GET", "{klock:n}:fence"}), "4000000000000001");
}

TEST_F(RedlockSessionTest, AVoteLeavesNoTraceOfAFence) {
  first_.command({"SET", "klock:n", "somebody", "PX", "60000"});
  auto mine = session(test::free_port());
  const auto attempt = mine->attempt(true, in(seconds(5)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::holds_alternative<Busy>(*attempt));
  EXPECT_EQ(second_.command({"EXISTS", "{klock:n}:fence"}), "0");
  EXPECT_EQ(second_.command({"XLEN", "{klock:}:events"}), "1") << "that we wait, and no more";
}

TEST_F(RedlockSessionTest, ARenewalIsDoubtWithoutAMajorityAndLossWhenItSaysNo) {
  RedisServer third;
  auto mine = session(third.port());
  ASSERT_TRUE(mine->attempt(false, in(seconds(5)), {}));
  // The last vote may come after the majority.
  for (RedisServer* server : {&first_, &second_, &third})
    ASSERT_TRUE(test::eventually([server] { return server->command({"EXISTS", "klock:n"}) == "1"; }, 10000));
  first_.command({"DEL", "klock:n"});
  second_.freeze();
  const auto doubt = mine->renew(in(milliseconds(300)), {});
  ASSERT_FALSE(doubt) << "one yes, one no, one silent";
  EXPECT_EQ(doubt.error().kind, ErrorKind::unreachable);
  second_.thaw();
  const auto renewed = mine->renew(in(seconds(5)), {});
  ASSERT_TRUE(renewed) << renewed.error().what;
  EXPECT_TRUE(std::holds_alternative<Renewed>(*renewed));
  ASSERT_TRUE(mine->renew(in(seconds(5)), {}));
  EXPECT_EQ(first_.command({"EXISTS", "klock:n"}), "1") << "it has it again";
  first_.command({"DEL", "klock:n"});
  third.command({"DEL", "klock:n"});
  const auto lost = mine->renew(in(seconds(5)), {});
  ASSERT_TRUE(lost) << lost.error().what;
  EXPECT_TRUE(std::holds_alternative<Gone>(*lost));
  mine->note_lost("it is gone");
  EXPECT_TRUE(test::eventually([this] { return second_.command({"EXISTS", "klock:n"}) == "0"; }, 10000));
}

TEST_F(RedlockSessionTest, ANewHoldIsSoonGivenToThoseThatHaveNotVotedForIt) {
  RedisServer third;
  third.command({"SET", "klock:n", "somebody", "PX", "60000"});
  auto mine = session(third.port(), claim_of(seconds(3)));
  const auto attempt = mine->attempt(false, in(seconds(5)), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Lease>(*attempt));
  third.command({"DEL", "klock:n"});
  for (const char* what : {"finds out", "gives it"}) {
    const auto wake = mine->await_news(std::get<Lease>(*attempt).deadline, {});
    ASSERT_TRUE(wake) << wake.error().what;
    EXPECT_EQ(*wake, Wake::news) << "before the lease ends: " << what;
    ASSERT_TRUE(mine->renew(in(seconds(5)), {}));
  }
  EXPECT_TRUE(test::eventually([&] { return third.command({"EXISTS", "klock:n"}) == "1"; }, 10000));
  EXPECT_EQ(*mine->await_news(in(milliseconds(400)), {}), Wake::timeout) << "there are no more";
}

TEST_F(RedlockSessionTest, ARenewalAfterTheReleaseAddsNothing) {
  RedisServer third;
  auto mine = session(third.port());
  ASSERT_TRUE(mine->attempt(false, in(seconds(5)), {}));
  ASSERT_TRUE(mine->renew(in(seconds(5)), {}));
  EXPECT_EQ(*mine->release(in(seconds(5)), {}), Released::done);
  const auto late = mine->renew(in(seconds(5)), {});
  ASSERT_TRUE(late) << late.error().what;
  EXPECT_FALSE(std::holds_alternative<Renewed>(*late));
  for (RedisServer* server : {&first_, &second_, &third})
    EXPECT_EQ(server->command({"EXISTS", "klock:n"}), "0");
}

}  // namespace
}  // namespace klock::redlock
