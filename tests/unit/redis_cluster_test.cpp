// SPDX-License-Identifier: MIT
#include "store/redis/client.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/doctor.hpp"
#include "support/fake_server.hpp"
#include "support/redis_fixture.hpp"

#include <gtest/gtest.h>

#include <future>

namespace klock::redis {
namespace {

using test::FakeServer;

Reply parse(const std::string& bytes) {
  ReplyReader reader;
  reader.feed(bytes.data(), bytes.size());
  auto reply = reader.next();
  return reply && *reply ? **reply : Reply{};
}

// One element of CLUSTER SLOTS, without ids.
std::string range(int first, int last, const std::vector<std::pair<std::string, int>>& servers) {
  std::string text = "*" + std::to_string(2 + servers.size()) + "\r\n:" + std::to_string(first) +
                     "\r\n:" + std::to_string(last) + "\r\n";
  for (const auto& [host, port] : servers)
    text += "*2\r\n$" + std::to_string(host.size()) + "\r\n" + host + "\r\n:" + std::to_string(port) + "\r\n";
  return text;
}

SlotMap slots(const std::vector<std::string>& ranges) {
  std::string text = "*" + std::to_string(ranges.size()) + "\r\n";
  for (const std::string& one : ranges) text += one;
  RedisUrl asked;
  asked.host = "asked";
  asked.password = Secret("pw");
  return {parse(text), asked};
}

TEST(SlotOf, IsThatOfTheHashTag) {
  EXPECT_EQ(slot_of("123456789"), 0x31c3);  // of the specification
  EXPECT_EQ(slot_of(""), 0);
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));
  EXPECT_EQ(slot_of("klock:a"), slot_of("{klock:a}:queue"));
}

TEST(SlotMap, WhoHasWhat) {
  const SlotMap map = slots({range(0, 8000, {{"a", 1}, {"b", 2}}), range(8001, 16000, {{"", 3}}),
                             range(16001, 16383, {{"a", 1}, {"b", 2}})});
  ASSERT_NE(map.master_of(8000), nullptr);
  EXPECT_EQ(describe_endpoint(*map.master_of(8000)), "a:1");
  EXPECT_EQ(describe_endpoint(*map.master_of(8001)), "asked:3") << "a server that does not know its own host";
  EXPECT_EQ(map.master_of(8001)->password.reveal(), "pw");
  EXPECT_EQ(map.masters().size(), 2u);
  EXPECT_EQ(map.servers().size(), 3u);
  EXPECT_EQ(map.unserved(), 0u);
  ASSERT_EQ(map.alone().size(), 1u);
  EXPECT_EQ(map.alone()[0].port, 3);
}

TEST(SlotMap, WhatMakesNoSenseIsLeftOut) {
  const SlotMap map =
      slots({range(-1, 10, {{"a", 1}}), range(0, 99999, {{"a", 1}}), range(0, 5, {}), range(7, 3, {{"a", 1}}),
             range(10, 20, {{"a", 0}}), range(30, 40, {{"a", 70000}}), ":5\r\n", "$-1\r\n"});
  for (const std::uint16_t slot : std::vector<std::uint16_t>{0, 5, 10, 35})
    EXPECT_EQ(map.master_of(slot), nullptr) << slot;
  EXPECT_EQ(map.unserved(), 16384u);
  EXPECT_EQ(slots({}).masters().size(), 0u);
}

TEST(JudgeSlots, Gaps) {
  EXPECT_EQ(judge_slots(slots({range(0, 16383, {{"a", 1}, {"b", 2}})})).severity, Severity::ok);
  const Finding alone = judge_slots(slots({range(0, 16383, {{"a", 1}})}));
  EXPECT_EQ(alone.severity, Severity::warning);
  EXPECT_NE(alone.what.find("a:1"), std::string::npos);
  const Finding gap = judge_slots(slots({range(0, 16380, {{"a", 1}})}));
  EXPECT_EQ(gap.severity, Severity::danger);
  EXPECT_NE(gap.what.find("3 of the slots"), std::string::npos);
}

TEST(MergeFindings, WhatIsWrongIsToldOfEach) {
  const std::vector<Finding> merged =
      merge_findings({{"a:1", {{Severity::ok, "memory", "much"}, {Severity::ok, "role", "master"}}},
                      {"b:2", {{Severity::warning, "memory", "little"}, {Severity::ok, "role", "master"}}},
                      {"c:3", {{Severity::danger, "memory", "none"}, {Severity::ok, "role", "master"}}}});
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].what, "b:2: little");
  EXPECT_EQ(merged[1].what, "c:3: none");
  EXPECT_EQ(merged[2].what, "a:1: master");
}

// A server that answers each request (one write) with the next of `answers`, then with the last one again.
std::function<void(int)> answering(std::vector<std::string> answers) {
  auto at = std::make_shared<std::size_t>(0);
  return [answers, at](int fd) {
    while (!test::receive_some(fd).empty()) {
      test::send_text(fd, answers[std::min(*at, answers.size() - 1)]);
      ++*at;
    }
  };
}

class ClusterClient : public testing::Test {
 protected:
  static Instant soon() { return BootClock::now() + std::chrono::seconds(10); }
  static ClusterUrl url_to(std::uint16_t port) {
    RedisUrl server;
    server.host = "127.0.0.1";
    server.port = port;
    return {{server}};
  }
  static std::string to(const char* word, std::uint16_t port) {
    return "-" + std::string(word) + " 42 127.0.0.1:" + std::to_string(port) + "\r\n";
  }
};

// The answers to CLIENT SETNAME, and to READWRITE or ASKING, come first on each connection.
TEST_F(ClusterClient, FollowsWhereItIsSent) {
  const FakeServer second(answering({"+OK\r\n+OK\r\n$3\r\nyes\r\n"}));
  const FakeServer first(answering({"+OK\r\n+OK\r\n" + to("MOVED", second.port())}));
  Client client(url_to(first.port()), "k");
  const auto reply = client.command({"GET", "k"}, soon(), {});
  ASSERT_TRUE(reply) << reply.error().error.what;
  EXPECT_EQ(reply->text, "yes");
  EXPECT_FALSE(client.sent_again()) << "what was refused has no effect";
}

TEST_F(ClusterClient, AsksElsewhereForOnce) {
  std::promise<std::string> heard;
  const FakeServer second([&](int fd) {
    heard.set_value(test::receive_some(fd));
    test::send_text(fd, "+OK\r\n+OK\r\n$5\r\nthere\r\n");
    test::receive_some(fd);
  });
  const FakeServer first(
      answering({"+OK\r\n+OK\r\n" + to("ASK", second.port()), "+OK\r\n+OK\r\n$4\r\nback\r\n"}));
  Client client(url_to(first.port()), "k");
  auto reply = client.command({"GET", "k"}, soon(), {});
  ASSERT_TRUE(reply) << reply.error().error.what;
  EXPECT_EQ(reply->text, "there");
  const std::string request = heard.get_future().get();
  EXPECT_LT(request.find("ASKING"), request.find("GET"));
  reply = client.command({"GET", "k"}, soon(), {});
  ASSERT_TRUE(reply) << reply.error().error.what;
  EXPECT_EQ(reply->text, "back");
}

TEST_F(ClusterClient, SentRoundInCirclesForEver) {
  std::promise<std::string> answer;
  const std::shared_future<std::string> told = answer.get_future().share();
  const FakeServer server([told](int fd) {
    while (!test::receive_some(fd).empty()) test::send_text(fd, told.get());
  });
  answer.set_value("+OK\r\n+OK\r\n" + to("MOVED", server.port()));
  Client client(url_to(server.port()), "k");
  const auto reply = client.command({"GET", "k"}, BootClock::now() + std::chrono::milliseconds(300), {});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().error.kind, ErrorKind::not_ready) << reply.error().error.what;
  EXPECT_LT(server.connections(), 200) << "with pauses";
}

TEST_F(ClusterClient, SentToNowhere) {
  for (const char* nonsense :
       {"-MOVED\r\n", "-MOVED 42\r\n", "-MOVED 42 :\r\n", "-MOVED 42 h:0\r\n", "-ASK x:y:z\r\n"}) {
    const FakeServer server(answering({std::string("+OK\r\n+OK\r\n") + nonsense}));
    Client client(url_to(server.port()), "k");
    EXPECT_FALSE(client.command({"GET", "k"}, BootClock::now() + std::chrono::milliseconds(500), {}))
        << nonsense;
  }
}

TEST_F(ClusterClient, AServerWithoutAHost) {
  const FakeServer server(answering({"+OK\r\n+OK\r\n-MOVED 42 :1\r\n"}));
  Client client(url_to(server.port()), "k");
  const auto reply = client.command({"GET", "k"}, BootClock::now() + std::chrono::milliseconds(300), {});
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().error.what.find("127.0.0.1:1"), std::string::npos) << reply.error().error.what;
}

TEST_F(ClusterClient, AServerOfNoClusterIsNotAsked) {
  const test::RedisServer server;
  Client client(url_to(server.port()), "k");
  const auto reply = client.command({"GET", "k"}, soon(), {});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().error.kind, ErrorKind::config);
  EXPECT_NE(reply.error().error.what.find("no Redis Cluster"), std::string::npos) << reply.error().error.what;
}

}  // namespace
}  // namespace klock::redis
