// SPDX-License-Identifier: MIT
#include "store/redis/sentinel.hpp"
#include "support/fake_server.hpp"
#include "support/redis_server.hpp"

#include <gtest/gtest.h>

namespace klock::redis {
namespace {

TEST(JudgeSentinels, ByHowManyAgree) {
  struct Case {
    std::vector<Vote> votes;
    Severity severity;
    const char* what;
  };
  const Vote a{"a:1", {}};
  const Vote b{"b:1", {}};
  const Vote none{};
  const Vote down{{}, "s3:1: no contact"};
  for (const Case& one :
       {Case{{a, a, a}, Severity::ok, "3 of 3 name a:1"},
        Case{{a, down, a}, Severity::warning, "2 of 3 name a:1; s3:1: no contact"},
        Case{{a, b, a}, Severity::warning, "2 of 3 name a:1, 1 of 3 name b:1"},
        Case{{a, down, down}, Severity::danger, "1 of 3 name a:1"},
        Case{{a, b}, Severity::danger, "1 of 2 name a:1, 1 of 2 name b:1"},
        Case{{none, none, down}, Severity::danger, "none of 3 names a master"},
        Case{{a, a}, Severity::warning, "too few"}, Case{{a}, Severity::warning, "too few"}}) {
    const Finding finding = judge_sentinels(one.votes);
    EXPECT_EQ(finding.severity, one.severity) << finding.what;
    EXPECT_NE(finding.what.find(one.what), std::string::npos) << finding.what;
  }
}

// Sentinels that answer what they are told to, and the route they lead to.
class SentinelRouteTest : public testing::Test {
 protected:
  static Instant soon() { return BootClock::now() + std::chrono::seconds(10); }

  static std::string naming(std::uint16_t port) {
    const std::string digits = std::to_string(port);
    return "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(digits.size()) + "\r\n" + digits + "\r\n";
  }
  static std::function<void(int)> saying(const std::string& answer) {
    return [answer](int fd) {
      test::receive_some(fd);
      test::send_text(fd, answer);
      while (!test::receive_some(fd).empty()) {
      }
    };
  }
};

TEST_F(SentinelRouteTest, TheMostOfThoseThatAnswer) {
  const test::RedisServer server;
  const test::RedisServer other;
  const test::FakeServer first(saying(naming(other.port())));
  const test::FakeServer second(saying(naming(server.port())));
  const test::FakeServer third(saying(naming(server.port())));
  SentinelUrl url;
  url.master = "m";
  for (const std::uint16_t port : {first.port(), second.port(), third.port()}) {
    url.sentinels.emplace_back();
    url.sentinels.back().host = "127.0.0.1";
    url.sentinels.back().port = port;
  }
  SentinelRoute route(url);
  auto connection = route.open(soon(), {});
  ASSERT_TRUE(connection) << connection.error().error.what;
  Pipeline out;
  out.add({"CONFIG", "GET", "port"});
  ASSERT_TRUE((*connection)->write(out, soon(), {}));
  const auto reply = (*connection)->read(soon(), {});
  ASSERT_TRUE(reply) << reply.error().error.what;
  EXPECT_EQ(reply->text_at(1), std::to_string(server.port()));
}

TEST_F(SentinelRouteTest, AnswersThatMakeNoSense) {
  for (const std::string& answer :
       {std::string("+OK\r\n*2\r\n$1\r\nh\r\n$1\r\nx\r\n"), std::string("+OK\r\n*2\r\n$0\r\n\r\n$1\r\n1\r\n"),
        std::string("+OK\r\n*2\r\n$3\r\nh\0x\r\n$1\r\n1\r\n", 25), std::string("+OK\r\n*1\r\n$1\r\nh\r\n"),
        std::string("+OK\r\n:7\r\n"), std::string("+OK\r\n*-1\r\n"),
        std::string("+OK\r\n*2\r\n$1\r\nh\r\n$5\r\n99999\r\n")}) {
    const test::FakeServer sentinel(saying(answer));
    SentinelUrl url;
    url.master = "m";
    url.sentinels.emplace_back();
    url.sentinels.back().host = "127.0.0.1";
    url.sentinels.back().port = sentinel.port();
    const auto connection = SentinelRoute(url).open(soon(), {});
    ASSERT_FALSE(connection) << answer;
    EXPECT_EQ(connection.error().error.kind, ErrorKind::config) << connection.error().error.what;
  }
}

}  // namespace
}  // namespace klock::redis
