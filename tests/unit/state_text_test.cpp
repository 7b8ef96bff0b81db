// SPDX-License-Identifier: MIT
#include "output/state_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <time.h>

namespace klock {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

class StateText : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    held.lock = {"import", "klock:import"};
    held.occupancy = Occupancy::held;
    Holder holder;
    holder.id = "0123456789ab";
    holder.who = {"root", "db1", 123, "import.sh", "night run", ""};
    holder.since_wall_ms = 1'795'974'780'123;
    holder.held = 12s;
    holder.expires_in = 9500ms;
    holder.fence = 1'795'974'780'000'000;
    held.holders = {holder};
    Waiter waiter;
    waiter.who = {"alice", "web2", 9, "sh", "", ""};
    waiter.waiting = 65s;
    held.waiters = {waiter, {}};
    free.lock = {"x", "klock:x"};
  }

  Json parsed(const std::vector<LockState>& states) const {
    const std::string text = status_json(states, "redis://h");
    EXPECT_EQ(text.back(), '\n');
    return Json::parse(text);
  }

  LockState held;
  LockState free;
};

TEST_F(StateText, Free) {
  EXPECT_EQ(status_text({free}, "redis://h"), "x: free\n");
}

TEST_F(StateText, Held) {
  EXPECT_EQ(status_text({held, free}, "redis://h"),
            "import: held, exclusive (redis://h)\n"
            "  held by root@db1 pid 123 (import.sh) since 2026-11-29 17:53:00 (12s): night run\n"
            "    id 0123456789ab, 9s left, fence 1795974780000000\n"
            "  waiter 1: alice@web2 pid 9 (sh), waiting 1m05s\n"
            "  waiter 2: someone\n"
            "x: free\n");
}

TEST_F(StateText, HeldByAnotherClient) {
  Holder foreign;
  foreign.id = "feed";
  foreign.foreign = true;
  foreign.what = "string \"abc\"";
  held.holders = {foreign};
  held.waiters.clear();
  EXPECT_EQ(
      status_text({held}, "s"),
      "import: held, exclusive (s)\n  held by another client (string \"abc\")\n    id feed, no expiry\n");
  held.holders[0].client = "redsync";
  EXPECT_EQ(status_text({held}, "s"),
            "import: held, exclusive (s)\n  held by another client, probably redsync (string \"abc\")\n"
            "    id feed, no expiry\n");
  EXPECT_NE(list_text({held}).find("another client, probably redsync"), std::string::npos);
}

TEST_F(StateText, Cooldown) {
  held.occupancy = Occupancy::cooldown;
  held.waiters.clear();
  EXPECT_EQ(status_text({held}, "s"),
            "import: nobody runs, but --min-hold keeps it taken (s)\n  free again: 9s left\n");
}

TEST_F(StateText, CooldownOfOneOfSeveral) {
  held.waiters.clear();
  Holder left = held.holders[0];
  left.cooldown = true;
  left.who.user = "eva";
  held.holders.insert(held.holders.begin(), left);
  const std::string text = status_text({held}, "s");
  EXPECT_NE(text.find("  kept taken by --min-hold after eva@db1 pid 123"), std::string::npos) << text;
  EXPECT_NE(text.find("    free again: 9s left\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  held by root@db1 pid 123"), std::string::npos) << text;
  EXPECT_NE(list_text({held}).find("root@db1 pid 123 (import.sh) +1"), std::string::npos);
}

TEST_F(StateText, NothingHostileReachesTheTerminal) {
  held.lock.name = "a\x1b[2J\nb";
  held.holders[0].who.message = "\u009b31m\x07";
  held.holders[0].id = "\x1b";
  held.waiters[0].who.host = "h\x9b";
  for (const std::string& text :
       {status_text({held}, "s\x1b"), list_text({held}), status_json({held}, "s\x1b")})
    for (const char c : text)
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != '\x7f')) << text;
  for (const char c : status_json({held}, "s")) EXPECT_LT(static_cast<unsigned char>(c), 0x7f);
}

TEST_F(StateText, JsonOfAHeldLock) {
  const Json json = parsed({held});
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0], Json::parse(R"({
    "name": "import", "key": "klock:import", "store": "redis://h", "state": "held", "mode": "exclusive", "slots": null,
    "holders": [{"id": "0123456789ab", "user": "root", "host": "db1", "pid": 123, "program": "import.sh",
                 "message": "night run", "since": "2026-11-29T17:53:00.123Z", "held_ms": 12000, "expires_in_ms": 9500,
                 "fence": 1795974780000000, "cooldown": false, "foreign": false}],
    "waiters": [{"user": "alice", "host": "web2", "pid": 9, "mode": "exclusive", "waiting_ms": 65000},
                {"user": null, "host": null, "pid": null, "mode": "exclusive", "waiting_ms": null}]})"));
}

TEST_F(StateText, JsonKeepsTheDocumentedOrder) {
  const std::string text = status_json({held}, "s");
  std::size_t at = 0;
  for (const char* key : {"name",    "key",           "store", "state",    "mode",    "slots",   "holders",
                          "id",      "user",          "host",  "pid",      "program", "message", "since",
                          "held_ms", "expires_in_ms", "fence", "cooldown", "foreign", "waiters"}) {
    const std::size_t found = text.find("\"" + std::string(key) + "\":", at);
    ASSERT_NE(found, std::string::npos) << key;
    at = found;
  }
}

TEST_F(StateText, JsonOfUnknownParts) {
  Holder foreign;
  foreign.foreign = true;
  foreign.what = "hash with 1 field";
  held.holders = {foreign};
  const Json holder = parsed({held})[0]["holders"][0];
  for (const char* key :
       {"user", "host", "pid", "program", "message", "since", "held_ms", "expires_in_ms", "fence"})
    EXPECT_TRUE(holder.at(key).is_null()) << key;
  EXPECT_EQ(holder.at("foreign"), true);
  EXPECT_EQ(holder.at("what"), "hash with 1 field");
  EXPECT_TRUE(holder.at("client").is_null());
  held.holders[0].client = "Redisson";
  EXPECT_EQ(parsed({held})[0]["holders"][0]["client"], "Redisson");
}

TEST_F(StateText, JsonOfFreeAndOfNothing) {
  EXPECT_EQ(parsed({}), Json::array());
  EXPECT_EQ(parsed({free})[0]["state"], "free");
  EXPECT_TRUE(parsed({free})[0]["holders"].empty());
  free.occupancy = Occupancy::cooldown;
  EXPECT_EQ(parsed({free})[0]["state"], "cooldown");
}

TEST_F(StateText, JsonSurvivesInvalidUtf8) {
  held.holders[0].who.message = "a\xff\xc3";
  EXPECT_EQ(parsed({held})[0]["holders"][0]["message"], "a\uFFFD\uFFFD");
}

TEST_F(StateText, ListIsAligned) {
  held.lock.name = "größe";
  free.waiters.resize(2);
  EXPECT_EQ(list_text({held, free}),
            "NAME   STATE  HOLDER                        SINCE                LEFT  WAITERS\n"
            "größe  held   root@db1 pid 123 (import.sh)  2026-11-29 17:53:00  9s    2\n"
            "x      free   -                             -                    -     2\n");
  EXPECT_EQ(list_text({}), "");
  held.lock.name = "日本";
  EXPECT_EQ(list_text({held}).find("日本  held   root"), list_text({held}).find('\n') + 1)
      << "four columns wide";
}

TEST_F(StateText, OfSeveralServersTellsHowManyHaveIt) {
  EXPECT_EQ(status_text({held}, "redis://h").find("servers"), std::string::npos);
  EXPECT_FALSE(parsed({held})[0].contains("servers"));
  held.servers = 5;
  held.answered = 4;
  held.holders[0].servers = 3;
  const std::string text = status_text({held}, "redlock://h");
  EXPECT_NE(text.find("import: held, exclusive, 4 of 5 servers answer"), std::string::npos) << text;
  EXPECT_NE(text.find("on 3 of 5 servers"), std::string::npos) << text;
  const Json json = parsed({held})[0];
  EXPECT_EQ(json["servers"]["answered"], 4);
  EXPECT_EQ(json["holders"][0]["servers"], 3);
}

}  // namespace
}  // namespace klock
