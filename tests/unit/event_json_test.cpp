// SPDX-License-Identifier: MIT
#include "lease/event_json.hpp"

#include "util/wall_time.hpp"

#include <gtest/gtest.h>

#include <string>

namespace klock {
namespace {

Event sample() {
  Event event;
  event.wall_us = 1'795'974'780'123'456;
  event.kind = EventKind::forced;
  event.lock = {"a:b", "klock:a:b"};
  event.mode = Mode::slots;
  event.slots = 3;
  event.id = "0123456789ab";
  event.fence = 1'795'974'780'123'456;
  event.who = {"ann", "db1", 42, "import.sh", "weekly", {}, "'import.sh' '-x'"};
  event.waited = Milliseconds(0);
  event.held = Milliseconds(5000);
  event.by = "bob@db2";
  event.reason = "it hangs";
  return event;
}

TEST(EventJson, EveryKindHasANameOfItsOwn) {
  std::string names;
  for (int kind = 0; kind <= static_cast<int>(EventKind::reconnected); ++kind) {
    const std::string name(event_name(static_cast<EventKind>(kind)));
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(names.find(" " + name + " "), std::string::npos) << name;
    EXPECT_EQ(parse_event_name(name), static_cast<EventKind>(kind));
    names += " " + name + " ";
  }
  EXPECT_EQ(parse_event_name("nonsense"), std::nullopt);
}

TEST(EventJson, WhatIsWrittenIsRead) {
  const Event event = sample();
  const auto read = parse_event(event_json(event, "local:"));
  ASSERT_TRUE(read);
  EXPECT_EQ(event_json(*read, "local:"), event_json(event, "local:"));
  EXPECT_EQ(read->wall_us, event.wall_us);
  EXPECT_EQ(read->kind, EventKind::forced);
  EXPECT_EQ(read->lock.key, "klock:a:b");
  EXPECT_EQ(read->mode, Mode::slots);
  EXPECT_EQ(read->fence, event.fence);
  EXPECT_EQ(read->who.command, "'import.sh' '-x'");
  EXPECT_EQ(read->waited, Milliseconds(0));
  EXPECT_EQ(read->held, Milliseconds(5000));
  EXPECT_EQ(read->late, std::nullopt);
}

TEST(EventJson, WhatIsUnknownIsLeftOut) {
  Event event;
  event.wall_us = 1;
  event.kind = EventKind::waiting;
  event.lock = {"n", "klock:n"};
  EXPECT_EQ(
      event_json(event),
      R"({"time":"1970-01-01T00:00:00.000001Z","event":"waiting","name":"n","key":"klock:n","mode":"exclusive"})");
}

TEST(EventJson, OneLineWhateverOthersWrote) {
  Event event = sample();
  event.who.message = std::string("a\nb\x1b\xff\0c", 7);
  event.reason = std::string(100'000, 'x');
  const std::string line = event_json(event);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_LT(line.size(), 10'000U);
  EXPECT_TRUE(parse_event(line));
}

TEST(EventJson, NonsenseIsNoEvent) {
  for (const char* line : {"", "x", "[]", "{}", "3", R"({"event":"acquired"})", R"({"event":3,"time":"x"})",
                           R"({"time":"2026-11-29T17:53:00.123456Z","event":"other"})",
                           R"({"time":"2026-13-29T17:53:00.123456Z","event":"acquired"})"})
    EXPECT_FALSE(parse_event(line)) << line;
  const auto odd = parse_event(
      R"({"time":"2026-11-29T17:53:00.123456Z","event":"acquired","name":7,"pid":-4,"held_ms":"x","mode":"?"})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->lock.name, "");
  EXPECT_EQ(odd->who.pid, 0);
}

TEST(WallTime, UtcIsReadAsItIsWritten) {
  for (const std::int64_t us :
       {std::int64_t{0}, std::int64_t{1'795'974'780'123'456}, std::int64_t{253'402'300'799'999'999}})
    EXPECT_EQ(parse_utc_time_us(utc_time_us(us)), us);
  EXPECT_EQ(utc_time_us(1'795'974'780'000'007), "2026-11-29T17:53:00.000007Z");
  for (const char* text : {"", "2026-11-29", "2026-11-29T17:53:00Z", "2026-11-29T17:53:00.123Z",
                           "2026-11-29T17:53:00.123456Z ", "2026-02-30T00:00:00.000000Z"})
    EXPECT_FALSE(parse_utc_time_us(text)) << text;
}

}  // namespace
}  // namespace klock
