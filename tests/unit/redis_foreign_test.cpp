// SPDX-License-Identifier: MIT
#include "store/redis/foreign.hpp"

#include <gtest/gtest.h>

namespace klock::redis {
namespace {

constexpr const char* k_uuid = "2b1e5d9a-7c54-4f0e-9a52-0d4b8a3e6f11";
constexpr const char* k_owner = "2b1e5d9a-7c54-4f0e-9a52-0d4b8a3e6f11:43";
constexpr const char* k_writer = "2b1e5d9a-7c54-4f0e-9a52-0d4b8a3e6f11:43:write";
constexpr const char* k_token_of_32 = "nZ3VHcPgQm0Jx2c8bKq5l7T1yR4wEoUsDfGhAaIiXvA=";

ForeignKey text(std::string_view value, std::string_view key = "job") {
  return {key, "string", value, static_cast<std::int64_t>(value.size())};
}
ForeignKey several(std::string_view type, std::vector<std::string_view> members) {
  const auto size = static_cast<std::int64_t>(members.size());
  return {"job", type, {}, size, std::move(members)};
}

TEST(RedisForeign, StringsAreToldByTheirShape) {
  EXPECT_EQ(probable_client(text("5f0a9c1e8d1311eea5060242ac120002")), "redis-py");
  EXPECT_EQ(probable_client(text("5f0a9c1e8d1341eea5060242ac120002")),
            "node-redlock, or klock without its details");
  EXPECT_EQ(probable_client(text(k_uuid)), "redlock-rb, RedLock.net or redis-semaphore");
  EXPECT_EQ(probable_client(text(k_uuid, "mutex:job")), "redis-semaphore");
  EXPECT_EQ(probable_client(text("mZ0Lk3pWq8R1sT6uVx2yBA==")), "redsync");
  EXPECT_EQ(probable_client(text("mZ0Lk3pWq8R1sT6uVx2y-A")), "bsm/redislock");
  EXPECT_EQ(probable_client(text(k_token_of_32)), "Symfony");
  EXPECT_EQ(probable_client(text("ADDED:2026-11-29T03:00:00.000Z@web1")), "ShedLock");
  for (const char* other : {"", "1", "abc", "ADDED:", "mZ0Lk3pWq8R1sT6uVx2yB===",
                            "2b1e5d9a-7c54-4f0e-9a52_0d4b8a3e6f11", "5F0A9C1E8D1311EEA5060242AC120002"})
    EXPECT_EQ(probable_client(text(other)), "") << other;
}

TEST(RedisForeign, PythonRedisLockIsToldByItsKeyToo) {
  const std::string_view coded = "mZ0Lk3pWq8R1sT6uVx2yBAcd";
  const std::string raw("\x00\xff\x10klock\x01\x02\x03\x04\x05\x06\x07\x08", 16);
  for (const std::string_view value : {coded, std::string_view(raw)}) {
    EXPECT_EQ(probable_client(text(value, "lock:job")), "python-redis-lock");
    EXPECT_EQ(probable_client(text(value)), "");
  }
  EXPECT_EQ(probable_client(text("abc", "lock:job")), "");
}

TEST(RedisForeign, OnlyAWholeValueTells) {
  ForeignKey seen = text(k_uuid);
  seen.size = 5000;
  EXPECT_EQ(probable_client(seen), "");
}

TEST(RedisForeign, HashesAndSortedSets) {
  EXPECT_EQ(probable_client(several("hash", {k_owner})), "Redisson");
  EXPECT_EQ(probable_client(several("hash", {"mode", k_owner})), "Redisson (read lock)");
  EXPECT_EQ(probable_client(several("hash", {"mode", k_owner, k_writer})), "Redisson (write lock)");
  EXPECT_EQ(probable_client(several("zset", {"__write__", k_token_of_32})), "Symfony");
  EXPECT_EQ(probable_client(several("zset", {k_token_of_32, k_token_of_32})), "Symfony");
  EXPECT_EQ(probable_client(several("zset", {k_uuid})), "redis-semaphore");
  for (const auto& members : std::vector<std::vector<std::string_view>>{
           {}, {"mode"}, {"x"}, {k_owner, "x"}, {k_uuid}, {"2b1e5d9a-7c54-4f0e-9a52-0d4b8a3e6f11:"}})
    EXPECT_EQ(probable_client(several("hash", members)), "");
  EXPECT_EQ(probable_client(several("zset", {})), "");
  EXPECT_EQ(probable_client(several("zset", {k_uuid, "x"})), "");
  EXPECT_EQ(probable_client(several("list", {k_uuid})), "");
}

TEST(RedisForeign, DescribedForPeople) {
  EXPECT_EQ(describe_foreign(text("abc")), "string \"abc\"");
  EXPECT_EQ(describe_foreign(text("0123456789abcdef0123456789abcdef")), "string \"0123456789ab\"...");
  EXPECT_EQ(describe_foreign(text(std::string(200, 'x'))), "string \"" + std::string(100, 'x') + "\"...");
  EXPECT_EQ(describe_foreign(several("hash", {"a"})), "hash with 1 field \"a\"");
  EXPECT_EQ(describe_foreign(several("zset", {"a", "b", "c"})),
            "sorted set with 3 members \"a\", \"b\", ...");
  EXPECT_EQ(describe_foreign({"job", "stream", {}, 2}), "stream with 2 entries");
  EXPECT_EQ(describe_foreign({"job", "list", {}, 2}), "list with 2 elements");
  EXPECT_EQ(describe_foreign({"job", "set", {}, 1}), "set with 1 member");
  EXPECT_EQ(describe_foreign({"job", "ReJSON-RL", {}, -1}), "ReJSON-RL");
}

TEST(RedisForeign, SignalsOfEach) {
  const auto signal = [](std::string_view key, const ForeignKey& seen) {
    const auto found = signal_of(key, probable_client(seen));
    return found ? found->channel + " " + found->message : std::string();
  };
  EXPECT_EQ(signal("job", several("hash", {k_owner})), "redisson_lock__channel:{job} 0");
  EXPECT_EQ(signal("a{job}", several("hash", {k_owner})), "redisson_lock__channel:a{job} 0");
  EXPECT_EQ(signal("job", several("hash", {"mode", k_owner})), "redisson_rwlock:{job} 0");
  EXPECT_EQ(signal("job", several("hash", {"mode", k_writer})), "redisson_rwlock:{job} 1");
  EXPECT_EQ(signal("job", several("hash", {"x"})), "");
  EXPECT_EQ(signal("job", text(k_uuid)), "");
  EXPECT_EQ(signal_list_of("lock:job"), "lock-signal:job");
  EXPECT_EQ(signal_list_of("job"), std::nullopt);
}

}  // namespace
}  // namespace klock::redis
