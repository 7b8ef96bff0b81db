// SPDX-License-Identifier: MIT
#include "output/watch_frame.hpp"

#include "output/display_width.hpp"
#include "support/eventually.hpp"
#include "util/clock.hpp"

#include <gtest/gtest.h>

#include <stdlib.h>
#include <time.h>

#include <algorithm>

namespace klock {
namespace {

using namespace std::chrono_literals;

class WatchFrames : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    picture.store = "redis://db:6379";
    picture.wall_ms = 1'795'974'780'123;
    LockState& import = add("import");
    import.holders[0].who.message = "night run";
    import.waiters.resize(2);
    import.waiters[1].waiting = 65s;
    LockState& render = add("render");
    render.mode = Mode::slots;
    render.slots = 3;
    render.holders.push_back(render.holders[0]);
    render.holders[1].who.host = "web2";
  }

  LockState& add(const std::string& name) {
    LockState state;
    state.lock = {name, "klock:" + name};
    state.occupancy = Occupancy::held;
    Holder holder;
    holder.who = {"ann", "db1", 7, "import.sh", "", ""};
    holder.held = 12s;
    holder.expires_in = 9s;
    state.holders = {holder};
    picture.states.push_back(state);
    return picture.states.back();
  }

  std::string drawn(std::size_t width, std::size_t height) {
    const WatchFrame frame = watch_frame(picture, view, width, height);
    EXPECT_EQ(frame.lines.size(), height);
    std::string text;
    for (const FrameLine& line : frame.lines) {
      EXPECT_LE(display_width(line.text), width) << line.text;
      const std::size_t end = line.text.find_last_not_of(' ');
      text.append(line.text, 0, end == std::string::npos ? 0 : end + 1) += "\n";
    }
    return text;
  }

  WatchPicture picture;
  WatchView view;
};

TEST_F(WatchFrames, Usual) {
  EXPECT_EQ(drawn(80, 8),
            "17:53:00  2 held, 2 waiting  redis://db:6379\n"
            "NAME      MODE       HELD FOR  LEFT    HOLDER                      WAITERS\n"
            "import    exclusive  12s       9s      ann@db1 pid 7 (import.sh)   2 (1m05s)\n"
            "render    slots 2/3  12s       9s      ann@db1 pid 7 (import.sh)   -\n"
            "                     12s       9s      ann@web2 pid 7 (import.sh)\n"
            "\n"
            "\n"
            "q quit  n/a/l/w sort: name  r reverse  / filter  j/k 1-3 of 3\n");
}

TEST_F(WatchFrames, MessageWhereThereIsRoom) {
  EXPECT_NE(drawn(120, 8).find("2 (1m05s)  night run\n"), std::string::npos);
  EXPECT_NE(drawn(120, 8).find("WAITERS    MESSAGE\n"), std::string::npos);
}

TEST_F(WatchFrames, AnySizeWillDo) {
  add("日本語の錠前").lock.name += std::string(150, 'x');
  add("message").holders[0].who.message = std::string(400, 'm');
  for (std::size_t width = 1; width < 140; ++width)
    for (std::size_t height = 0; height < 12; ++height) drawn(width, height);
  EXPECT_EQ(drawn(20, 1), "17:53:00  4 held, ..\n");
  EXPECT_NE(drawn(12, 4).find("\nimport"), std::string::npos) << "the name is what stays";
}

TEST_F(WatchFrames, NameAndHolderShareWhatRoomThereIs) {
  picture.states[0].lock.name = std::string(60, 'n');
  picture.states[0].holders[0].who.host = std::string(60, 'h');
  const std::string text = drawn(80, 8);
  EXPECT_NE(text.find("\n" + std::string(10, 'n')), std::string::npos) << text;
  EXPECT_NE(text.find("  ann@" + std::string(6, 'h')), std::string::npos) << text;
}

TEST_F(WatchFrames, WhatOthersWroteIsEscaped) {
  picture.states[0].lock.name = "a\033[2J";
  picture.states[0].holders[0].who.message = "b\nc\u202e";
  const std::string text = drawn(150, 8);
  EXPECT_NE(text.find("a\\x1B[2J"), std::string::npos) << text;
  EXPECT_NE(text.find("b\\x0Ac\\u{202E}"), std::string::npos) << text;
  picture.failed_wall_ms = 1;
  picture.failure = "\033c";
  view.typing = true;
  view.filter = "\033d";
  for (const FrameLine& line : watch_frame(picture, view, 150, 8).lines)
    EXPECT_EQ(line.text.find('\033'), std::string::npos);
}

TEST_F(WatchFrames, OtherStates) {
  LockState& cooldown = add("s1");
  cooldown.occupancy = Occupancy::cooldown;
  LockState& foreign = add("s2");
  foreign.holders[0] = Holder{};
  foreign.holders[0].foreign = true;
  foreign.holders[0].what = "string \"x\"";
  LockState& waited = add("s3");
  waited.occupancy = Occupancy::free;
  waited.holders.clear();
  waited.waiters.resize(1);
  const std::string text = drawn(100, 20);
  EXPECT_NE(text.find("s1        cooldown   -         9s         -"), std::string::npos) << text;
  EXPECT_NE(text.find("s2        exclusive  -         no expiry  another client (string \"x\")  -"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("s3        free       -         -          -                            1"),
            std::string::npos)
      << text;
}

TEST_F(WatchFrames, StoreThatCannotBeReached) {
  picture.failed_wall_ms = picture.wall_ms + 61'000;
  picture.failure = "cannot connect: Connection refused";
  const WatchFrame frame = watch_frame(picture, view, 120, 8);
  EXPECT_TRUE(frame.lines[0].strong);
  EXPECT_EQ(
      frame.lines[0].text.find("17:53:00  2 held, 2 waiting  not reachable since 17:54:01  redis://db:6379: "
                               "cannot connect: Connection refused"),
      0U);
  EXPECT_NE(drawn(80, 8).find("\nimport"), std::string::npos);
}

TEST_F(WatchFrames, ScrollsNoFurtherThanTheEnd) {
  for (int i = 0; i < 50; ++i) add("t" + std::to_string(i));
  view.top = 1000;
  const WatchFrame frame = watch_frame(picture, view, 80, 24);
  EXPECT_EQ(frame.reach.page, 21U);
  EXPECT_EQ(frame.reach.last, frame.top);
  EXPECT_EQ(frame.top, 53U - 21U);
  EXPECT_EQ(frame.lines[22].text.substr(0, 3), "t49");
  EXPECT_NE(frame.lines[23].text.find("33-53 of 53"), std::string::npos) << frame.lines[23].text;
}

TEST_F(WatchFrames, ALockThatBeganAboveTheScreenIsNamedAgain) {
  for (int i = 0; i < 50; ++i) add("t" + std::to_string(i));
  view.top = 2;
  EXPECT_EQ(watch_frame(picture, view, 80, 10).lines[2].text.substr(0, 6), "render");
}

TEST_F(WatchFrames, KeyLineTellsOrderAndFilter) {
  view.sort = WatchSort::left;
  view.reversed = true;
  view.filter = "no such";
  EXPECT_NE(drawn(120, 8).find("sort: time left, reversed  / filter: no such  nothing to show\n"),
            std::string::npos);
  view.typing = true;
  EXPECT_NE(drawn(120, 8).find("\nfilter: no such_  Enter keeps it, Esc drops it\n"), std::string::npos);
}

TEST_F(WatchFrames, OnceIsPlainAndComplete) {
  for (int i = 0; i < 50; ++i) add("t" + std::to_string(i));
  const std::string text = watch_text(picture, view, 80);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 55);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find(" \n"), std::string::npos);
  EXPECT_EQ(text.find("quit"), std::string::npos);
}

TEST_F(WatchFrames, VeryManyLocksCostLittle) {
  for (int i = 0; i < 10'000; ++i) add("nightly-import-" + std::to_string(i));
  view.sort = WatchSort::age;
  const Instant begun = BootClock::now();
  for (int i = 0; i < 10; ++i) watch_frame(picture, view, 80, 24);
  EXPECT_LT(BootClock::now() - begun, 2s * test::slow_factor());
}

}  // namespace
}  // namespace klock
