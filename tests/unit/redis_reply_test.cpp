// SPDX-License-Identifier: MIT
#include "store/redis/keys.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/record.hpp"
#include "store/redis/reply.hpp"

#include <gtest/gtest.h>

#include <string>

namespace klock::redis {
namespace {

Result<std::optional<Reply>> read_one(ReplyReader& reader, const std::string& bytes) {
  reader.feed(bytes.data(), bytes.size());
  return reader.next();
}

TEST(RedisReply, ReadsEveryTypeInAnyPieces) {
  const std::string bytes = "*5\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n*0\r\n";
  ReplyReader reader;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    const auto partial = read_one(reader, bytes.substr(i, 1));
    ASSERT_TRUE(partial && !partial->has_value()) << i;
  }
  const auto whole = read_one(reader, bytes.substr(bytes.size() - 1));
  ASSERT_TRUE(whole && whole->has_value());
  const Reply& reply = **whole;
  ASSERT_EQ(reply.items.size(), 5u);
  EXPECT_EQ(reply.at(0).type, Reply::Type::status);
  EXPECT_TRUE(reply.at(1).is_error());
  EXPECT_EQ(reply.number_at(2), -7);
  EXPECT_EQ(reply.text_at(3), "a\r\n");
  EXPECT_EQ(reply.at(4).at(0).type, Reply::Type::nil);
  EXPECT_EQ(reply.at(4).at(1).type, Reply::Type::array);
  EXPECT_EQ(reply.at(9).type, Reply::Type::nil);
  EXPECT_EQ(reply.number_at(3), 0);
}

TEST(RedisReply, RefusesGarbageAndWhatIsTooBigOrTooDeep) {
  std::string deep;
  for (int i = 0; i < 30; ++i) deep += "*1\r\n";
  for (const std::string& bad :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("*999999999\r\n"),
        std::string("*-5\r\n"), std::string(":x\r\n"), deep}) {
    ReplyReader reader;
    const auto result = read_one(reader, bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().kind, ErrorKind::protocol);
    EXPECT_FALSE(reader.next());
  }
  ReplyReader reader;
  const std::string block(1 << 20, 'x');
  ASSERT_TRUE(read_one(reader, "$500000000\r\n"));
  bool refused = false;
  for (int i = 0; i < 10 && !refused; ++i) refused = !read_one(reader, block);
  EXPECT_TRUE(refused);
}

TEST(RedisReply, NestedGarbageLeaksNothing) {
  ReplyReader reader;
  EXPECT_FALSE(read_one(reader, "*3\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n!oops\r\n"));
}

TEST(RedisErrors, ClassifiesErrors) {
  struct Case {
    const char* error;
    Cause cause;
    ErrorKind kind;
  };
  const Case cases[] = {
      {"NOAUTH Authentication required.", Cause::final, ErrorKind::refused},
      {"ERR Protocol error: unauthenticated multibulk length", Cause::final, ErrorKind::refused},
      {"NOPERM this user has no permissions", Cause::no_permission, ErrorKind::refused},
      {"ERR The user executing the script can't run this command", Cause::no_permission, ErrorKind::refused},
      {"ERR ACL failure in script: User ann has no permissions to run the 'del' command script: abc",
       Cause::no_permission, ErrorKind::refused},
      {"LOADING Redis is loading", Cause::later, ErrorKind::unreachable},
      {"BUSY Redis is busy", Cause::later, ErrorKind::not_ready},
      {"OOM command not allowed. script: abc, on @user_script:7.", Cause::final, ErrorKind::not_ready},
      {"ERR Error running script (call to f_abc): @user_script:12: -OOM command not allowed", Cause::final,
       ErrorKind::not_ready},
      {"ERR Error running script (call to f_abc): @user_script:12: -READONLY You can't write",
       Cause::not_master, ErrorKind::not_ready},
      {"ERR DB index is out of range", Cause::final, ErrorKind::config},
      {"MOVED 1 127.0.0.1:7000", Cause::moved, ErrorKind::config},
      {"ASK 1 127.0.0.1:7000", Cause::ask, ErrorKind::config},
      {"TRYAGAIN Multiple keys request during rehashing of slot", Cause::split, ErrorKind::not_ready},
      {"CLUSTERDOWN The cluster is down", Cause::not_master, ErrorKind::not_ready},
      {"NOSCRIPT No matching script.", Cause::no_script, ErrorKind::protocol},
      {"ERR what is this", Cause::final, ErrorKind::protocol},
  };
  for (const Case& one : cases) {
    const Fault fault = fault_of(one.error);
    EXPECT_EQ(fault.cause, one.cause) << one.error;
    EXPECT_EQ(fault.error.kind, one.kind) << one.error;
  }
}

TEST(RedisErrors, TellsWhatAScriptMayNotDo) {
  const Fault fault = fault_of(
      "ERR ACL failure in script: User ann has no permissions to run the 'del' command script: abc, on "
      "@user_script:1.");
  EXPECT_EQ(fault.error.what, "the server forbids it: User ann has no permissions to run the 'del' command");
}

TEST(RedisErrors, RepeatsNothingOfWhatWeSent) {
  const Fault unknown = fault_of("ERR unknown command `ZADD`, with args beginning with: `secret-token`, ");
  EXPECT_EQ(unknown.error.what.find("secret"), std::string::npos);
  EXPECT_NE(unknown.error.what.find("ZADD"), std::string::npos);
  for (const char* reply :
       {"ERR unknown command `AUTH`, with args beginning with: `geheim`, ", "NOPERM geheim", "geheim"}) {
    const Fault login = login_fault_of(reply);
    EXPECT_EQ(login.error.kind, ErrorKind::refused);
    EXPECT_EQ(login.error.what.find("geheim"), std::string::npos);
  }
}

TEST(RedisKeys, ShareTheSlotAndDoNotCollide) {
  const LockKeys plain("klock:a", "klock:");
  EXPECT_EQ(plain.queue, "{klock:a}:queue");
  EXPECT_EQ(plain.channel("0123"), "{klock:a}:wake:0123");
  EXPECT_EQ(LockKeys("x{t}", "klock:").holders, "x{t}:klock:holders");
  EXPECT_EQ(LockKeys("x{}", "klock:").holders, "{x{}}:holders");
  EXPECT_NE(LockKeys("klock:index", "klock:").key, plain.index);
}

TEST(RedisRecord, DetailsSurviveAndRubbishDoesNot) {
  const Person who{"an\xffn", "alpha", 12, "import.sh", std::string(5000, 'm'), "boot"};
  const Details details = parse_details(details_json({"näme", "k"}, who));
  EXPECT_EQ(details.name, "näme");
  EXPECT_EQ(details.who.pid, 12);
  EXPECT_EQ(details.who.message.size(), 1000u);
  EXPECT_EQ(parse_details("{").name, "");
  EXPECT_FALSE(parse_request("7"));
  EXPECT_EQ(parse_request(request_json({"bob", "why"}, "0123"))->id, "0123");
}

}  // namespace
}  // namespace klock::redis
