// SPDX-License-Identifier: MIT
#include "config/store_url.hpp"

#include <gtest/gtest.h>

#include <array>

namespace klock {
namespace {

RedisUrl redis(const std::string& text) {
  const auto url = parse_store_url(text);
  EXPECT_TRUE(url.has_value()) << text << ": " << (url ? "" : url.error().what);
  if (!url || !std::holds_alternative<RedisUrl>(*url)) return {};
  return std::get<RedisUrl>(*url);
}

std::string local(const std::string& text) {
  const auto url = parse_store_url(text);
  if (!url) return "error: " + url.error().what;
  const auto* const found = std::get_if<LocalUrl>(&*url);
  return found ? found->directory : "not local";
}

TEST(StoreUrl, Local) {
  EXPECT_EQ(local("local:"), "");
  EXPECT_EQ(local("local:/srv/locks"), "/srv/locks");
  EXPECT_EQ(local("local:///srv/locks"), "/srv/locks");
  EXPECT_EQ(local("local:/"), "/");
  EXPECT_EQ(local("local:///"), "/");
}

TEST(StoreUrl, RedisDefaults) {
  const RedisUrl url = redis("redis://db1");
  EXPECT_EQ(url.host, "db1");
  EXPECT_EQ(url.port, 6379);
  EXPECT_EQ(url.database, 0);
  EXPECT_EQ(url.user, "");
  EXPECT_TRUE(url.password.empty());
  EXPECT_EQ(url.socket_path, "");
}

TEST(StoreUrl, RedisInFull) {
  const RedisUrl url = redis("redis://al%40ice:s%3A3%2Fcr%25t@db1.example.org:7000/12");
  EXPECT_EQ(url.user, "al@ice");
  EXPECT_EQ(url.password.reveal(), "s:3/cr%t");
  EXPECT_EQ(url.host, "db1.example.org");
  EXPECT_EQ(url.port, 7000);
  EXPECT_EQ(url.database, 12);
}

SentinelUrl sentinel(const std::string& text) {
  const auto url = parse_store_url(text);
  EXPECT_TRUE(url.has_value()) << text << ": " << (url ? "" : url.error().what);
  if (!url || !std::holds_alternative<SentinelUrl>(*url)) return {};
  return std::get<SentinelUrl>(*url);
}

TEST(StoreUrl, Sentinel) {
  const SentinelUrl url = sentinel("redis-sentinel://me:s%2Fcret@s1,s2:7000,[::1]:7001/main.db/3");
  ASSERT_EQ(url.sentinels.size(), 3u);
  EXPECT_EQ(url.sentinels[0].host, "s1");
  EXPECT_EQ(url.sentinels[0].port, 26379);
  EXPECT_EQ(url.sentinels[1].port, 7000);
  EXPECT_EQ(url.sentinels[2].host, "::1");
  EXPECT_EQ(url.sentinels[2].port, 7001);
  EXPECT_TRUE(url.sentinels[0].password.empty()) << "those of the master are not the Sentinels'";
  EXPECT_EQ(url.master, "main.db");
  EXPECT_EQ(url.server.user, "me");
  EXPECT_EQ(url.server.password.reveal(), "s/cret");
  EXPECT_EQ(url.server.database, 3);
  EXPECT_EQ(sentinel("redis-sentinel://s1/m").server.database, 0);
}

TEST(StoreUrl, WithTls) {
  const RedisUrl url = redis("rediss://me:s%2Fcret@db1:7000/3");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "db1");
  EXPECT_EQ(url.port, 7000);
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.password.reveal(), "s/cret");
  EXPECT_EQ(url.database, 3);
  EXPECT_FALSE(redis("redis://db1").tls);
  EXPECT_FALSE(redis("unix:///run/redis.sock").tls);
  const SentinelUrl site = sentinel("rediss-sentinel://s1,s2:7000/main");
  EXPECT_TRUE(site.server.tls && site.sentinels[0].tls && site.sentinels[1].tls);
  EXPECT_EQ(site.sentinels[0].port, 26379);
  EXPECT_FALSE(sentinel("redis-sentinel://s1/main").server.tls);
  for (const char* text : {"rediss://", "rediss:/h", "rediss://h:0", "rediss://h/x", "rediss-sentinel://s1",
                           "rediss+sentinel://s1/m", "redisss://h", "rediss-unix:///x"})
    EXPECT_FALSE(parse_store_url(text)) << text;
}

TEST(StoreUrl, EveryServerOfIt) {
  StoreUrl local = LocalUrl{};
  EXPECT_TRUE(servers_of(local).empty());
  StoreUrl one = *parse_store_url("redis://h");
  ASSERT_EQ(servers_of(one).size(), 1u);
  servers_of(one)[0]->host = "changed";
  EXPECT_EQ(std::get<RedisUrl>(one).host, "changed");
  StoreUrl site = *parse_store_url("redis-sentinel://s1,s2/m");
  EXPECT_EQ(servers_of(site).size(), 3u) << "the master, too";
}

TEST(StoreUrl, MalformedSentinel) {
  for (const char* text :
       {"redis-sentinel://", "redis-sentinel://s1", "redis-sentinel://s1/", "redis-sentinel:///m",
        "redis-sentinel://s1,/m", "redis-sentinel://,s1/m", "redis-sentinel://s1:0/m",
        "redis-sentinel://s1/m/x", "redis-sentinel://s1/m/1/2", "redis-sentinel://s1/a b",
        "redis-sentinel://s1 s2/m", "redis-sentinel://u:p@h@s1/m", "redis-sentinel://u:p@s1,u:p@s2/m"})
    EXPECT_FALSE(parse_store_url(text)) << text;
  EXPECT_EQ(redact_url("redis-sentinel://me:geheim@s1,s2:7000/m/1"),
            "redis-sentinel://me:***@s1,s2:7000/m/1");
  for (const char* text : {"redis-sentinel://me:geheim@s1,s2:70000/m", "redis-sentinel://me:geheim@s1,s2"})
    EXPECT_EQ(redact_url(text).find("geheim"), std::string::npos) << redact_url(text);
}

TEST(StoreUrl, Cluster) {
  const auto url = parse_store_url("redis-cluster://me:s%2Fcret@c1,c2:7000,[::1]:7001");
  ASSERT_TRUE(url && std::holds_alternative<ClusterUrl>(*url));
  const std::vector<RedisUrl>& nodes = std::get<ClusterUrl>(*url).nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].host, "c1");
  EXPECT_EQ(nodes[0].port, 6379);
  EXPECT_EQ(nodes[2].host, "::1");
  for (const RedisUrl& node : nodes) EXPECT_EQ(node.user + node.password.reveal(), "mes/cret");
  EXPECT_TRUE(parse_store_url("redis-cluster://c1/"));
  for (const char* text : {"redis-cluster://", "redis-cluster://c1,", "redis-cluster://c1:0",
                           "redis-cluster://c1/0", "redis-cluster://c1 c2", "redis-cluster://u:p@c1,u:p@c2"})
    EXPECT_FALSE(parse_store_url(text)) << text;
  EXPECT_EQ(redact_url("redis-cluster://me:geheim@c1,c2:7000"), "redis-cluster://me:***@c1,c2:7000");
}

TEST(StoreUrl, LoginForms) {
  EXPECT_EQ(redis("redis://:pw@h").password.reveal(), "pw");
  EXPECT_EQ(redis("redis://:pw@h").user, "");
  EXPECT_EQ(redis("redis://me@h").user, "me");
  EXPECT_TRUE(redis("redis://me@h").password.empty());
  EXPECT_EQ(redis("redis://me:a:b@h").password.reveal(), "a:b");
  EXPECT_EQ(redis("redis://me:a@b@h").password.reveal(), "a@b");
  EXPECT_EQ(redis("redis://@h").host, "h");
}

TEST(StoreUrl, AddressesInBrackets) {
  EXPECT_EQ(redis("redis://[::1]").host, "::1");
  EXPECT_EQ(redis("redis://[fe80::1%eth0]:6380/1").host, "fe80::1%eth0");
  EXPECT_EQ(redis("redis://[::1]:6380/1").port, 6380);
  EXPECT_EQ(redis("redis://:p@[::ffff:10.0.0.1]:1").port, 1);
}

TEST(StoreUrl, Sockets) {
  EXPECT_EQ(redis("unix:///run/redis.sock").socket_path, "/run/redis.sock");
  EXPECT_EQ(redis("unix:///run/redis.sock?db=3").database, 3);
  EXPECT_EQ(redis("unix:///run/a@b:c.sock").socket_path, "/run/a@b:c.sock");
  EXPECT_EQ(redis("unix:///run/redis.sock").host, "");
}

TEST(StoreUrl, EdgesOfNumbers) {
  EXPECT_EQ(redis("redis://h:1").port, 1);
  EXPECT_EQ(redis("redis://h:65535").port, 65535);
  EXPECT_EQ(redis("redis://h/").database, 0);
  EXPECT_EQ(redis("redis://h/0").database, 0);
}

TEST(StoreUrl, RefusesWhatIsMalformed) {
  for (const char* text : {"",
                           "h",
                           "h:6379",
                           "redis",
                           "redis:",
                           "redis:/",
                           "redis://",
                           "redis:///0",
                           "redis://:6379",
                           "redis://h:",
                           "redis://h:0",
                           "redis://h:65536",
                           "redis://h:99999999999999999999",
                           "redis://h:-1",
                           "redis://h:+1",
                           "redis://h:6379x",
                           "redis://h: 1",
                           "redis://h/x",
                           "redis://h/-1",
                           "redis://h/1/2",
                           "redis://h/99999999999",
                           "redis://h?db=1",
                           "redis://h/0?x=1",
                           "redis://h#f",
                           "redis://a b",
                           "redis://h1,h2",
                           "redis://[::1",
                           "redis://[]",
                           "redis://[::1]x",
                           "redis://[::1]:",
                           "redis://[h!]",
                           "redis://::1",
                           "redis://%zz:p@h",
                           "redis://u:%@h",
                           "redis://u:%4@h",
                           "redis://u:%4g@h",
                           "redis://u@",
                           "redis://:p@:1",
                           "REDIS://h",
                           " redis://h",
                           "unix:",
                           "unix://",
                           "unix:///",
                           "unix:/run/x",
                           "unix://run/x",
                           "unix:///x?db=",
                           "unix:///x?db=a",
                           "unix:///x?db=1&y=2",
                           "unix:///x?password=1",
                           "unix:///x\n",
                           "local",
                           "local:dir",
                           "local:./dir",
                           "local://dir",
                           "local:/a\nb",
                           "http://h",
                           "://h"}) {
    const auto url = parse_store_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().kind, ErrorKind::usage) << text;
    EXPECT_FALSE(url.error().what.empty()) << text;
  }
  EXPECT_FALSE(parse_store_url("unix:///" + std::string(200, 'x')).has_value());
}

TEST(StoreUrl, Redlock) {
  const auto url = parse_store_url("redlock://alice:s3cret@h1:1,[::1]:2,h3/4");
  ASSERT_TRUE(url.has_value()) << url.error().what;
  const auto& servers = std::get<RedlockUrl>(*url).servers;
  ASSERT_EQ(servers.size(), 3U);
  EXPECT_EQ(servers[0].host, "h1");
  EXPECT_EQ(servers[1].port, 2);
  EXPECT_EQ(servers[2].port, 6379);
  for (const RedisUrl& server : servers) {
    EXPECT_EQ(server.user, "alice");
    EXPECT_EQ(server.password.reveal(), "s3cret");
    EXPECT_EQ(server.database, 4);
  }
}

TEST(StoreUrl, RedlockWithTls) {
  const auto url = parse_store_url("redlocks://h1,h2,h3");
  ASSERT_TRUE(url.has_value()) << url.error().what;
  for (const RedisUrl& server : std::get<RedlockUrl>(*url).servers) EXPECT_TRUE(server.tls);
}

TEST(StoreUrl, ARedlockNeedsDifferentServersAndEnough) {
  for (const char* text : {"redlock://h1:1,h2:2", "redlock://h1:1", "redlock://h1:1,h2:2,h1:1",
                           "redlock://h1,h2,h3/x", "redlock://a@h1,b@h2,c@h3", "redlock://"}) {
    const auto url = parse_store_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().kind, ErrorKind::usage) << text;
  }
}

TEST(StoreUrl, ALoginThatIsNotInFrontIsNoUser) {
  for (const char* text : {"redlock://h1,alice:s3cret@h2,h3", "redlock://h1:1,alice:s3cret@h2,h3,h4",
                           "redis-cluster://h1,alice:s3cret@h2", "redis-sentinel://h1,:s3cret@h2/m"}) {
    const auto url = parse_store_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_NE(url.error().what.find("not in front of the first host"), std::string::npos) << url.error().what;
    EXPECT_EQ(url.error().what.find("s3cret"), std::string::npos) << url.error().what;
  }
  const auto url = parse_store_url("redlock://alice:s3%2Ccret@h1,h2,h3");
  ASSERT_TRUE(url.has_value()) << url.error().what;
  EXPECT_EQ(std::get<RedlockUrl>(*url).servers[2].password.reveal(), "s3,cret");
}

TEST(StoreUrl, ShowsAPasswordHoweverMalformed) {
  for (const char* text : {"redlock://h1,alice:s3cret@h2,h3", "redis://a:s3cret@h:x", "a:s3cret@h"})
    EXPECT_TRUE(shows_password(text)) << text;
  for (const char* text :
       {"redlock://h1:1,alice@h2,h3", "redis://a@h", "redis://a:@h", "redis://h:1/x", "local:/a", ""})
    EXPECT_FALSE(shows_password(text)) << text;
}

TEST(RedactUrl, ShowsEverythingButThePassword) {
  EXPECT_EQ(redact_url("redis://alice:s3cret@db1:7000/2"), "redis://alice:***@db1:7000/2");
  EXPECT_EQ(redact_url("redis://:s3cret@db1"), "redis://:***@db1");
  EXPECT_EQ(redact_url("redis://u:a@s3cret@db1"), "redis://u:***@db1");
  EXPECT_EQ(redact_url("redis://db1:6379/1"), "redis://db1:6379/1");
  EXPECT_EQ(redact_url("rediss://alice:s3cret@db1:1/2"), "rediss://alice:***@db1:1/2");
  EXPECT_EQ(redact_url("rediss-sentinel://a:s3cret@s1,s2/m"), "rediss-sentinel://a:***@s1,s2/m");
  EXPECT_EQ(redact_url("redlock://a:s3cret@h1,h2,h3/1"), "redlock://a:***@h1,h2,h3/1");
  EXPECT_EQ(redact_url("redlocks://a:s3cret@h1,h2,h3/1"), "redlocks://a:***@h1,h2,h3/1");
  EXPECT_EQ(redact_url("redis://[::1]:6379/1"), "redis://[::1]:6379/1");
  EXPECT_EQ(redact_url("unix:///run/redis.sock?db=3"), "unix:///run/redis.sock?db=3");
  EXPECT_EQ(redact_url("local:/srv"), "local:/srv");
  EXPECT_EQ(redact_url("local:"), "local:");
}

TEST(RedactUrl, HidesWhatCouldBeAPassword) {
  EXPECT_EQ(redact_url("redis://s3cret@db1"), "redis://***@db1");
  EXPECT_EQ(redact_url("rediss://alice:s3cret@db1:1/x"), "rediss://***@db1:1/***");
  EXPECT_EQ(redact_url("redlock://alice:s3cret@h1:1,h2:2"), "redlock://***@h1:***");
  EXPECT_EQ(redact_url("alice:s3cret@db1"), "***@db1");
  EXPECT_EQ(redact_url("alice:s3cret"), "alice:***");
  EXPECT_EQ(redact_url("redis://:s3/cret@db1"), "redis://***@db1");
  EXPECT_EQ(redact_url("redis://db1?password=s3cret"), "redis://db1?***");
  EXPECT_EQ(redact_url("unix://u:s3cret@/run/x"), "unix://***@/***");
  EXPECT_EQ(redact_url("localhost:6379"), "localhost:6379");
}

void expect_secret_kept(const std::string& text) {
  constexpr std::string_view k_secret = "s3cret";
  EXPECT_EQ(redact_url(text).find(k_secret), std::string::npos) << text << " -> " << redact_url(text);
  const auto url = parse_store_url(text);
  if (url) return;
  EXPECT_EQ(url.error().what.find(k_secret), std::string::npos) << url.error().what;
  EXPECT_EQ(url.error().hint.find(k_secret), std::string::npos) << url.error().hint;
}

TEST(RedactUrl, KeepsTheSecretInEveryPrefixAndSingleByteChange) {
  for (const std::string whole :
       {"redis://alice:s3cret@db1.example.org:6379/0", "redis://:s3cret@db1", "redis://:s3cret@[::1]:6379/15",
        "redis://alice:s3cret@h/3", "rediss://alice:s3cret@h:1", "redis-sentinel://:s3cret@h1:1,h2:2/master",
        "rediss-sentinel://:s3cret@h1:1,h2:2/master"}) {
    for (std::size_t length = 0; length <= whole.size(); ++length)
      expect_secret_kept(whole.substr(0, length));
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = whole;
        changed[at] = static_cast<char>(byte);
        expect_secret_kept(changed);
        std::string longer = whole;
        longer.insert(at, 1, static_cast<char>(byte));
        expect_secret_kept(longer);
      }
      std::string shorter = whole;
      expect_secret_kept(shorter.erase(at, 1));
    }
  }
}

}  // namespace
}  // namespace klock
