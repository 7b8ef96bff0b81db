// SPDX-License-Identifier: MIT
#include "store/redis/doctor.hpp"
#include "store/redis/permissions.hpp"
#include "store/redis/scripts.hpp"
#include "store/redis/server_facts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace klock::redis {
namespace {

using namespace std::chrono_literals;

constexpr Duration k_ttl = 15s;

ServerFacts healthy() {
  ServerFacts facts;
  facts.add_info(
      "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nuptime_in_seconds:100\r\n\r\n"
      "# Memory\r\nused_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
      "total_system_memory:100000000\r\naof_enabled:1\r\naof_last_write_status:ok\r\n"
      "rdb_last_bgsave_status:ok\r\nevicted_keys:0\r\nrole:master\r\nconnected_slaves:0\r\n");
  for (const auto& [name, value] :
       {std::pair("appendonly", "yes"), std::pair("appendfsync", "everysec"), std::pair("save", ""),
        std::pair("stop-writes-on-bgsave-error", "yes"), std::pair("min-replicas-to-write", "0")})
    facts.add_setting(name, value);
  return facts;
}

Finding about(const std::string& subject, const ServerFacts& facts, Duration ttl = k_ttl) {
  for (Finding& finding : judge_server(facts, ttl))
    if (finding.subject == subject) return finding;
  return {Severity::unknown, "none", ""};
}

// What a healthy server with this changed gives.
Finding with_info(const std::string& subject, const std::string& info) {
  ServerFacts facts = healthy();
  facts.add_info(info);
  return about(subject, facts);
}

Finding with_setting(const std::string& subject, const std::string& name, const std::string& value) {
  ServerFacts facts = healthy();
  facts.add_setting(name, value);
  return about(subject, facts);
}

TEST(RedisDoctor, AHealthyServerHasOnlyGoodFindings) {
  const auto findings = judge_server(healthy(), k_ttl);
  EXPECT_EQ(findings.size(), 8u);
  for (const Finding& finding : findings)
    EXPECT_EQ(finding.severity, Severity::ok) << finding.subject << ": " << finding.what;
}

TEST(RedisDoctor, OfASilentServerAllIsUnknown) {
  for (const Finding& finding : judge_server({}, k_ttl))
    EXPECT_EQ(finding.severity, Severity::unknown) << finding.subject << ": " << finding.what;
}

TEST(RedisDoctor, InfoIsCutAndUnderstoodWhateverItIs) {
  ServerFacts facts;
  facts.add_info("a:1\r\nb:x:y\nno colon\n:empty\n# c:2\nd:" + std::string(1000, 'x') + "\na:3");
  EXPECT_EQ(facts.info("a"), "3");
  EXPECT_EQ(facts.info("b"), "x:y");
  EXPECT_EQ(facts.info("d")->size(), 200u);
  EXPECT_FALSE(facts.info("# c"));
  for (const char* text : {"", "x", "-1", "1x", " 1", "99999999999999999999"})
    EXPECT_FALSE(ServerFacts::number(text)) << text;
}

TEST(RedisDoctor, Version) {
  EXPECT_EQ(with_info("server", "redis_version:4.0.14").severity, Severity::danger);
  EXPECT_EQ(with_info("server", "redis_version:5.0.0").severity, Severity::ok);
  EXPECT_EQ(with_info("server", "run_id:0123abcd").identity, "0123abcd");
  EXPECT_NE(
      with_info("server", "valkey_version:8.1.0\r\nserver_mode:cluster").what.find("Valkey 8.1.0, cluster"),
      std::string::npos);
}

TEST(RedisDoctor, Persistence) {
  const std::string subject = "persistence";
  EXPECT_NE(about(subject, healthy()).what.find("last second"), std::string::npos);
  EXPECT_EQ(with_setting(subject, "appendfsync", "no").severity, Severity::warning);
  EXPECT_EQ(with_info(subject, "aof_last_write_status:err").severity, Severity::danger);
  ServerFacts facts = healthy();
  facts.add_info("aof_enabled:0");
  facts.add_setting("appendonly", "no");
  EXPECT_NE(about(subject, facts).what.find("none"), std::string::npos);
  facts.add_setting("save", "3600 1");
  EXPECT_NE(about(subject, facts).what.find("snapshots"), std::string::npos);
  facts.add_info("rdb_last_bgsave_status:err");
  EXPECT_EQ(about(subject, facts).severity, Severity::danger);
  facts.add_setting("stop-writes-on-bgsave-error", "no");
  EXPECT_EQ(about(subject, facts).severity, Severity::warning);
}

TEST(RedisDoctor, EvictionIsADangerUnlessNothingCanBeEvicted) {
  EXPECT_EQ(with_info("eviction", "maxmemory_policy:allkeys-lru").severity, Severity::warning);
  EXPECT_EQ(with_info("eviction", "maxmemory_policy:allkeys-lru\nmaxmemory:1").severity, Severity::danger);
  const Finding evicted =
      with_info("eviction", "maxmemory_policy:volatile-ttl\nmaxmemory:1\nevicted_keys:7\n");
  EXPECT_NE(evicted.what.find("7 keys evicted"), std::string::npos);
  // CONFIG alone.
  ServerFacts facts;
  facts.add_setting("maxmemory-policy", "allkeys-lru");
  EXPECT_EQ(about("eviction", facts).severity, Severity::danger);
}

TEST(RedisDoctor, Memory) {
  EXPECT_EQ(with_info("memory", "maxmemory:1100000").severity, Severity::warning);
  EXPECT_EQ(with_info("memory", "maxmemory:1200000").severity, Severity::ok);
  EXPECT_EQ(with_info("memory", "used_memory:99000000").severity, Severity::warning);
}

TEST(RedisDoctor, AReplicaIsADanger) {
  const Finding role =
      with_info("role", "role:slave\nmaster_host:db1\nmaster_port:6379\nmaster_link_status:down");
  EXPECT_EQ(role.severity, Severity::danger);
  EXPECT_NE(role.what.find("db1 port 6379"), std::string::npos);
  EXPECT_EQ(with_info("min-replicas", "role:slave").subject, "none");
}

TEST(RedisDoctor, ReplicasThatLag) {
  const auto replica = [](const std::string& state, int lag) {
    return "connected_slaves:2\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\n"
           "slave1:ip=10.0.0.3,port=6380,state=" +
           state + ",offset=1,lag=" + std::to_string(lag) + "\n";
  };
  EXPECT_EQ(with_info("replication", replica("online", 5)).severity, Severity::ok);
  const Finding late = with_info("replication", replica("online", 6));
  EXPECT_EQ(late.severity, Severity::warning);
  EXPECT_NE(late.what.find("10.0.0.3 port 6380"), std::string::npos);
  EXPECT_EQ(late.what.find("10.0.0.2"), std::string::npos);
  EXPECT_EQ(with_info("replication", replica("wait_bgsave", 0)).severity, Severity::warning);
  // One second is what every replica of a short lease has.
  ServerFacts facts = healthy();
  facts.add_info(replica("online", 1));
  EXPECT_EQ(about("replication", facts, 200ms).severity, Severity::ok);
  EXPECT_EQ(about("min-replicas", facts).severity, Severity::warning);
  facts.add_setting("min-replicas-to-write", "2");
  EXPECT_EQ(about("min-replicas", facts).severity, Severity::ok);
  facts.add_setting("min-replicas-to-write", "3");
  EXPECT_EQ(about("min-replicas", facts).severity, Severity::danger);
}

TEST(RedisDoctor, ARestartWithinTheLease) {
  EXPECT_EQ(about("restart", healthy(), 100s).severity, Severity::ok);
  EXPECT_EQ(about("restart", healthy(), 101s).severity, Severity::warning);
  ServerFacts facts = healthy();
  facts.add_setting("appendfsync", "always");
  EXPECT_EQ(about("restart", facts, 101s).severity, Severity::ok);
}

TEST(RedisDoctor, RoundTripsByTheLease) {
  std::vector<Duration> samples(100, 1ms);
  samples[0] = 9s;  // one of a hundred
  EXPECT_EQ(judge_round_trips(samples, k_ttl).severity, Severity::ok);
  samples[1] = 2s;
  EXPECT_EQ(judge_round_trips(samples, k_ttl).severity, Severity::warning);
  samples[1] = 6s;
  const Finding slow = judge_round_trips(samples, k_ttl);
  EXPECT_EQ(slow.severity, Severity::danger);
  EXPECT_NE(slow.what.find("p50 1.0 ms, p99 6000.0 ms of 100"), std::string::npos) << slow.what;
  EXPECT_EQ(judge_round_trips({1ms}, k_ttl).severity, Severity::ok);
  EXPECT_EQ(judge_round_trips({}, k_ttl).severity, Severity::unknown);
}

TEST(RedisDoctor, ClocksWithHalfARoundTripAllowedFor) {
  EXPECT_EQ(judge_clock(Contact::Clock{900ms, 1ms}).severity, Severity::ok);
  EXPECT_EQ(judge_clock(Contact::Clock{2s, 1s}).severity, Severity::ok);
  EXPECT_NE(judge_clock(Contact::Clock{2s, 1ms}).what.find("2.0 s ahead"), std::string::npos);
  EXPECT_NE(judge_clock(Contact::Clock{-2s, 1ms}).what.find("2.0 s behind"), std::string::npos);
  EXPECT_EQ(judge_clock(Contact::Clock{-2s, 1ms}).severity, Severity::warning);
  EXPECT_EQ(judge_clock(std::nullopt).severity, Severity::unknown);
}

Reply answer(const std::string& error = "") {
  Reply reply;
  reply.type = error.empty() ? Reply::Type::integer : Reply::Type::error;
  reply.text = error;
  return reply;
}

// The findings when each trial for which `error` says something is refused with that.
template <class Refuse>
std::vector<Finding> permissions_with(const Refuse& error) {
  const auto all = trials("klock:", "doctor-1");
  std::vector<Reply> replies;
  for (const Trial& trial : all) replies.push_back(answer(error(trial)));
  return judge_permissions(all, replies);
}

TEST(RedisPermissions, AllThatTheScriptsCallIsTried) {
  std::set<std::string> tried;
  for (const Trial& trial : trials("klock:", "doctor-1")) tried.insert(trial.words[0]);
  for (const Script& script :
       {scripts::k_acquire, scripts::k_renew, scripts::k_release, scripts::k_ask, scripts::k_remove}) {
    const std::string_view text = script.text;
    const std::string_view call = "redis.call('";
    for (auto at = text.find(call); at != text.npos; at = text.find(call, at + 1)) {
      const auto from = at + call.size();
      const std::string command(text.substr(from, text.find('\'', from) - from));
      EXPECT_TRUE(tried.contains(command)) << command;
    }
  }
  for (const char* command : {"PUBLISH", "PUBSUB", "SUBSCRIBE", "UNSUBSCRIBE", "MULTI", "EXEC", "EVAL"})
    EXPECT_TRUE(tried.contains(command)) << command;
}

TEST(RedisPermissions, AllGranted) {
  const auto findings = permissions_with([](const Trial&) { return std::string(); });
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(worst_of(findings), Severity::ok);
}

// As Redis 6.2 and 7.0, and 7.2 and later say it.
TEST(RedisPermissions, RefusalsAreToldApart) {
  for (const char* words : {"NOPERM this user has no permissions to access one of the keys used as arguments",
                            "NOPERM No permissions to access a key"}) {
    const auto findings = permissions_with([&](const Trial& trial) {
      return trial.touches == "{klock:NAME}:fence" ? std::string(words) : std::string();
    });
    ASSERT_EQ(worst_of(findings), Severity::danger);
    EXPECT_EQ(findings.back().what,
              "this user may not use the keys {klock:NAME}:fence: no lock can be taken and kept");
  }
  for (const std::string words :
       {"NOPERM this user has no permissions to run the 'hset' command or its subcommand",
        "NOPERM User channel key has no permissions to run the 'hset' command",
        "ERR unknown command `HSET`, with args beginning with: "}) {
    const auto findings = permissions_with(
        [&](const Trial& trial) { return trial.words[0] == "HSET" ? words : std::string(); });
    ASSERT_EQ(worst_of(findings), Severity::danger);
    EXPECT_EQ(findings.back().what, "this user may not run HSET: no lock can be taken and kept");
    EXPECT_EQ(findings.back().remedy, "ACL SETUSER USER +hset");
  }
  const auto channels = permissions_with([](const Trial& trial) {
    return trial.need == Need::channels && !trial.touches.empty()
               ? "NOPERM No permissions to access a channel"
               : "";
  });
  EXPECT_EQ(worst_of(channels), Severity::warning);
  EXPECT_EQ(channels.back().subject, "channels");
}

TEST(RedisPermissions, WhatTheServerSaysOfAWrite) {
  const auto findings = permissions_with([](const Trial& trial) {
    return trial.words[0] == "SET" ? "READONLY You can't write against a read only replica." : "";
  });
  EXPECT_EQ(findings.front().subject, "writes");
  EXPECT_EQ(findings.front().severity, Severity::danger);
}

}  // namespace
}  // namespace klock::redis
