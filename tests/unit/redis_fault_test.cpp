// SPDX-License-Identifier: MIT
#include "support/fake_server.hpp"
#include "support/redis_fixture.hpp"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

namespace klock::test {
namespace {

class RedisFault : public RedisTest {
 protected:
  void TearDown() override {
    server().command({"CONFIG", "SET", "maxmemory", "0", "min-replicas-to-write", "0"});
  }
};

std::unique_ptr<LockStore> store_at(std::uint16_t port) {
  RedisUrl url;
  url.host = "127.0.0.1";
  url.port = port;
  return open_redis_store(url, "klock:");
}

Error error_of(std::uint16_t port, bool enqueue = false, int deadline_ms = 300) {
  const auto attempt = store_at(port)->session(make_claim("a"))->attempt(enqueue, in_ms(deadline_ms), {});
  return attempt ? Error{ErrorKind::internal, "no error"} : attempt.error();
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(RedisContact, RefusedConnectionIsAnErrorAtOnce) {
  const Instant start = BootClock::now();
  const Error error = error_of(free_port(), true, 5000);
  EXPECT_EQ(error.kind, ErrorKind::unreachable);
  EXPECT_LT(ms_since(start), 200 * slow_factor());
}

TEST(RedisContact, MissingSocketAndLongPath) {
  RedisUrl url;
  url.socket_path = "/nonexistent/redis.sock";
  auto attempt = open_redis_store(url, "")->session(make_claim("a"))->attempt(false, in_ms(500), {});
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::unreachable);
  url.socket_path = "/" + std::string(200, 'x');
  attempt = open_redis_store(url, "")->session(make_claim("a"))->attempt(false, in_ms(500), {});
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::config);
}

TEST(RedisContact, UnknownHostIsUnreachableByTheDeadline) {
  RedisUrl url;
  url.host = "no-such-host.invalid";
  const Instant start = BootClock::now();
  const auto attempt = open_redis_store(url, "")->session(make_claim("a"))->attempt(false, in_ms(1000), {});
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::unreachable);
  EXPECT_NE(attempt.error().what.find("no-such-host.invalid"), std::string::npos);
  EXPECT_LT(ms_since(start), 1200 * slow_factor());
}

std::string array_of(const std::string& word, const std::string& number) {
  return "*2\r\n$" + std::to_string(word.size()) + "\r\n" + word + "\r\n$" + std::to_string(number.size()) +
         "\r\n" + number + "\r\n";
}

TEST(RedisContact, AReleaseWhoseReplyIsLostIsNoLoss) {
  int connection = 0;
  const FakeServer server([&](int fd) {
    receive_some(fd);
    send_text(fd, "+OK\r\n" + (connection++ == 0 ? array_of("held", "7") : array_of("gone", "0")));
    receive_some(fd);  // the release: done, but nobody hears of it
  });
  const auto locks = store_at(server.port());
  const auto session = locks->session(make_claim("a"));
  ASSERT_TRUE(std::holds_alternative<Lease>(*session->attempt(false, in_ms(1000), {})));
  const auto released = session->release(soon(), {});
  ASSERT_TRUE(released) << released.error().what;
  EXPECT_EQ(*released, Released::done);
  EXPECT_EQ(server.connections(), 2);
}

TEST(RedisContact, AnAcquisitionWhoseReplyIsLostIsAskedForAgain) {
  int connection = 0;
  const FakeServer server([&](int fd) {
    receive_some(fd);
    if (connection++ > 0) send_text(fd, "+OK\r\n" + array_of("held", "7"));
  });
  const auto locks = store_at(server.port());
  const auto attempt = locks->session(make_claim("a"))->attempt(false, in_ms(1000), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  EXPECT_TRUE(std::holds_alternative<Lease>(*attempt));
}

TEST(RedisContact, SilentServerIsUnreachableAtTheDeadline) {
  const FakeServer silent([](int fd) {
    while (!receive_some(fd).empty()) {
    }
  });
  for (const bool enqueue : {false, true}) {
    const Instant start = BootClock::now();
    EXPECT_EQ(error_of(silent.port(), enqueue).kind, ErrorKind::unreachable);
    EXPECT_GE(ms_since(start), 295);
    EXPECT_LT(ms_since(start), 450 * slow_factor());
  }
}

TEST(RedisContact, BadServersAreErrorsAndLeakNoDescriptors) {
  const std::pair<std::string, ErrorKind> answers[] = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", ErrorKind::protocol},
      {"+OK\r\n+OK\r\n", ErrorKind::protocol},
      {"+OK\r\n*3\r\n$4\r\nhe", ErrorKind::unreachable},
      {"", ErrorKind::unreachable},
      {"-DENIED Redis is running in protected mode\r\n", ErrorKind::refused},
      {"-ERR max number of clients reached\r\n", ErrorKind::not_ready},
      {"-NOAUTH Authentication required.\r\n", ErrorKind::refused},
      {"*1000000000\r\n", ErrorKind::protocol},
      {"+OK\r\n*2\r\n$4\r\nheld\r\n*0\r\n*0\r\n", ErrorKind::internal},
  };
  for (const auto& [answer, kind] : answers) {
    const FakeServer server([&text = answer](int fd) {
      receive_some(fd);
      send_text(fd, text);
    });
    const auto before = open_descriptors();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of(server.port()).kind, kind) << answer;
    // The server's own end of the last connection may still be open.
    EXPECT_TRUE(eventually([&] { return open_descriptors() == before; })) << answer;
  }
}

TEST(RedisContact, PatienceWithALoadingServerEndsAtTheDeadline) {
  const FakeServer loading([](int fd) {
    receive_some(fd);
    send_text(fd, "+OK\r\n-LOADING Redis is loading the dataset in memory\r\n");
  });
  const Instant start = BootClock::now();
  const Error error = error_of(loading.port(), false, 500);
  EXPECT_EQ(error.kind, ErrorKind::unreachable);
  EXPECT_NE(error.what.find("loading"), std::string::npos);
  EXPECT_GE(loading.connections(), 4);
  EXPECT_LT(ms_since(start), 600 * slow_factor());
}

TEST_F(RedisFault, LostReplyOfTheAcquisitionLeavesNothing) {
  for (const bool enqueue : {false, true}) {
    server().command({"CLIENT", "PAUSE", "500"});
    auto mine = session("a");
    const auto attempt = mine->attempt(enqueue, in_ms(150), {});
    ASSERT_FALSE(attempt);
    EXPECT_EQ(attempt.error().kind, ErrorKind::unreachable);
    mine->withdraw(soon());
    EXPECT_EQ(keys_left(), "");
  }
}

TEST_F(RedisFault, AReplyAfterATimeoutBelongsToNobody) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server().command({"CLIENT", "PAUSE", "400"});
  EXPECT_FALSE(mine->renew(in_ms(100), {}));
  EXPECT_EQ(mine->release(in_ms(3000), {}), Released::done);
  EXPECT_EQ(keys_left(), "");
}

TEST_F(RedisFault, AnIdleConnectionThatWasClosedIsReplaced) {
  for (const bool enqueue : {false, true}) {
    auto mine = session("a");
    ASSERT_TRUE(is_held(mine->attempt(enqueue, soon(), {})));
    server().command({"CLIENT", "KILL", "TYPE", enqueue ? "pubsub" : "normal", "SKIPME", "yes"});
    const auto renewal = mine->renew(in_ms(1000), {});
    ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
    server().command({"CLIENT", "KILL", "TYPE", "pubsub"});
    server().command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    EXPECT_EQ(mine->release(in_ms(1000), {}), Released::done);
    EXPECT_EQ(keys_left(), "");
  }
}

TEST_F(RedisFault, FrozenServerIsDoubtAndThawedItRenews) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server().freeze();
  const Instant start = BootClock::now();
  const auto doubt = mine->renew(in_ms(200), {});
  EXPECT_FALSE(doubt);
  EXPECT_LT(ms_since(start), 350 * slow_factor());
  EXPECT_EQ(mine->await_news(in_ms(50), {}), Wake::timeout);
  server().thaw();
  const auto renewal = mine->renew(soon(), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_EQ(mine->release(in_ms(1000), {}), Released::done);
}

TEST_F(RedisFault, BusyServerIsWaitedFor) {
  server().command({"CONFIG", "SET", "lua-time-limit", "20"});
  std::thread script([port = server().port()] {
    RedisUrl url;
    url.port = port;
    const FakeServer unused([](int) {});  // keeps the thread's libraries warm before the server is busy
    std::string command =
        "redis-cli -p " + std::to_string(port) + " eval 'while true do end' 0 >/dev/null 2>&1";
    EXPECT_NE(std::system(command.c_str()), -1);
  });
  ASSERT_TRUE(eventually([] { return server().command({"PING"}).starts_with("BUSY"); }));
  const Error error = error_of(server().port(), true, 200);
  EXPECT_EQ(error.kind, ErrorKind::not_ready);
  EXPECT_NE(error.what.find("busy"), std::string::npos) << error.what;
  std::thread killer([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    server().command({"SCRIPT", "KILL"});
  });
  auto mine = session("a");
  EXPECT_TRUE(is_held(mine->attempt(true, in_ms(5000), {})));
  killer.join();
  script.join();
}

TEST_F(RedisFault, FullServerRefusesNewHoldsButLetsOldOnesGo) {
  auto mine = session("a");
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  auto waiter = session("a");
  ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
  server().command({"CONFIG", "SET", "maxmemory", "1"});
  const Error error = error_of(server().port());
  EXPECT_EQ(error.kind, ErrorKind::internal) << error.what;  // "a" is busy: nothing need be written
  const auto refused = session("b")->attempt(false, in_ms(500), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::not_ready);
  EXPECT_NE(refused.error().what.find("memory"), std::string::npos) << refused.error().what;
  EXPECT_EQ(server().command({"EXISTS", "klock:b", "{klock:b}:holders", "{klock:b}:fence"}), "0");

  const auto renewal = mine->renew(in_ms(1000), {});
  ASSERT_TRUE(renewal) << renewal.error().what;
  ASSERT_TRUE(std::holds_alternative<Renewed>(*renewal));
  EXPECT_EQ(store().ask_stop({"a", "klock:a"}, state("a").holders.at(0), {"bob", ""}, in_ms(1000)),
            Eviction::done);
  ASSERT_EQ(mine->release(in_ms(1000), {}), Released::done);
  EXPECT_EQ(waiter->await_news(in_ms(1000), {}), Wake::news);
  EXPECT_TRUE(is_held(waiter->attempt(true, in_ms(1000), {})));
  EXPECT_EQ(waiter->release(in_ms(1000), {}), Released::done);
}

TEST_F(RedisFault, MissingReplicasAndReadOnlyReplica) {
  server().command({"CONFIG", "SET", "min-replicas-to-write", "1"});
  Error error = error_of(server().port());
  EXPECT_EQ(error.kind, ErrorKind::not_ready);
  EXPECT_NE(error.what.find("replicas"), std::string::npos) << error.what;
  server().command({"CONFIG", "SET", "min-replicas-to-write", "0"});

  server().command({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  error = error_of(server().port());
  server().command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(error.kind, ErrorKind::not_ready);
  EXPECT_NE(error.what.find("replica"), std::string::npos) << error.what;
}

TEST(RedisRestart, WithoutPersistenceTheHoldIsGone) {
  RedisServer server;
  auto store = store_at(server.port());
  auto mine = store->session(make_claim("a"));
  const auto held = mine->attempt(true, soon(), {});
  ASSERT_TRUE(is_held(held));
  auto waiter = store->session(make_claim("a"));
  ASSERT_TRUE(is_busy(waiter->attempt(true, soon(), {})));
  server.kill();
  const Instant start = BootClock::now();
  EXPECT_FALSE(waiter->await_news(in_ms(5000), {}));
  const auto doubt = mine->renew(in_ms(1000), {});
  ASSERT_FALSE(doubt);
  EXPECT_EQ(doubt.error().kind, ErrorKind::unreachable);
  EXPECT_LT(ms_since(start), 300 * slow_factor());
  server.start();
  const auto renewal = mine->renew(in_ms(1000), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
  EXPECT_EQ(server.command({"EXISTS", "klock:a"}), "0");
  const auto next = waiter->attempt(true, in_ms(1000), {});
  ASSERT_TRUE(is_held(next));
  EXPECT_GT(lease_of(next).fence, lease_of(held).fence);
}

TEST(RedisRestart, WithPersistenceTheHoldGoesOn) {
  RedisServer server({"--appendonly", "yes"});
  auto store = store_at(server.port());
  auto mine = store->session(make_claim("a"));
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server.kill();
  server.start();
  const auto renewal = mine->renew(in_ms(5000), {});
  ASSERT_TRUE(renewal && std::holds_alternative<Renewed>(*renewal));
  EXPECT_EQ(mine->release(in_ms(1000), {}), Released::done);
}

TEST(RedisRestart, ReleaseTriesAgainUntilTheServerIsBack) {
  RedisServer server({"--appendonly", "yes"});
  auto store = store_at(server.port());
  auto mine = store->session(make_claim("a"));
  ASSERT_TRUE(is_held(mine->attempt(true, soon(), {})));
  server.kill();
  const Instant start = BootClock::now();
  const auto doubt = mine->release(in_ms(300), {});
  ASSERT_FALSE(doubt);
  EXPECT_EQ(doubt.error().kind, ErrorKind::unreachable);
  EXPECT_LT(ms_since(start), 500 * slow_factor());
  Result<Released> released = Released::gone;
  std::thread releasing([&] { released = mine->release(in_ms(5000), {}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  server.start();
  releasing.join();
  ASSERT_TRUE(released) << released.error().what;
  EXPECT_EQ(*released, Released::done);
  EXPECT_EQ(server.command({"EXISTS", "klock:a"}), "0");
}

}  // namespace
}  // namespace klock::test
