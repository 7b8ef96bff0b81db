// SPDX-License-Identifier: MIT
#include "output/timeline.hpp"

#include "output/event_text.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace klock {
namespace {

Event at(std::int64_t second, EventKind kind, const std::string& id, const std::string& lock = "n") {
  Event event;
  event.wall_us = second * 1'000'000;
  event.kind = kind;
  event.lock = {lock, "klock:" + lock};
  event.id = id;
  event.who.user = id;
  return event;
}

// 80 columns for the chart: a second each, if it takes 80 seconds.
std::vector<std::string> chart(const std::vector<Event>& events, std::int64_t from = 1,
                               std::int64_t to = 81) {
  std::vector<std::string> lines;
  std::istringstream text(timeline_text(events, from * 1000, to * 1000, 87));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Timeline, NothingIsNothing) {
  EXPECT_EQ(timeline_text({}, 0, 1000, 80), "");
}

TEST(Timeline, WaitingHoldingAndTheEnd) {
  const auto lines = chart({at(1, EventKind::acquired, "a"), at(11, EventKind::waiting, "b"),
                            at(41, EventKind::released, "a"), at(41, EventKind::acquired, "b"),
                            at(61, EventKind::lost, "b")});
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[1], "n");
  EXPECT_EQ(lines[2], "  a    " + std::string(40, '=') + "|");
  EXPECT_EQ(lines[3], "  b    " + std::string(10, ' ') + std::string(30, '.') + std::string(20, '=') + "X");
}

TEST(Timeline, WhatGoesOnAndWhatBeganBefore) {
  Event end = at(21, EventKind::released, "a");
  end.held = Milliseconds(100'000);
  const auto lines = chart({end, at(31, EventKind::acquired, "b")});
  EXPECT_EQ(lines[2], "  a    " + std::string(20, '=') + "|");
  EXPECT_EQ(lines[3], "  b    " + std::string(30, ' ') + std::string(49, '=') + ">");
}

TEST(Timeline, AnEndThatNobodyTold) {
  const auto lines = chart({at(1, EventKind::acquired, "a"), at(41, EventKind::acquired, "b")});
  EXPECT_EQ(lines[2], "  a    " + std::string(40, '=') + "?");
}

TEST(Timeline, ThoseWithoutTheLock) {
  const auto lines = chart({at(1, EventKind::timed_out, "a"), at(2, EventKind::skipped, "b"),
                            at(3, EventKind::waiting, "c"), at(5, EventKind::gave_up, "c")});
  EXPECT_EQ(lines[2], "  a    t");
  EXPECT_EQ(lines[3], "  b     s");
  EXPECT_EQ(lines[4], "  c      ..g");
}

TEST(Timeline, ThoseWithoutTheStore) {
  const auto lines = chart({at(1, EventKind::degraded, "a"), at(2, EventKind::acquired, "b"),
                            at(3, EventKind::degraded, "b"), at(9, EventKind::reconnected, "b"),
                            at(11, EventKind::reconnected, "c"), at(12, EventKind::released, "b")});
  EXPECT_EQ(lines[2], "  a    d");
  EXPECT_EQ(lines[3], "  b     " + std::string(10, '=') + "|");
  EXPECT_EQ(lines.size(), 6U) << "but for the legend: a store's return is nobody's time";
}

TEST(Timeline, LocksApart) {
  const auto lines = chart({at(1, EventKind::acquired, "a", "y"), at(1, EventKind::acquired, "a", "x")});
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[1], "x");
  EXPECT_EQ(lines[3], "y");
}

TEST(Timeline, FitsAndIsSafe) {
  Event event = at(1, EventKind::acquired, "a", std::string("n\x1b[2J"));
  event.who = {"user", std::string(300, 'h'), 1, "p\x1b", "m", {}};
  for (const std::size_t width : {0U, 1U, 40U, 80U, 200U}) {
    std::istringstream text(timeline_text({event}, 0, 5000, width));
    std::string line;
    for (int i = 0; std::getline(text, line) && i < 3; ++i) {
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
      if (i == 2) {
        EXPECT_LE(line.size(), std::max<std::size_t>(width, 40));
      }
    }
  }
}

TEST(Timeline, TimesThatMakeNoSense) {
  Event event = at(50, EventKind::released, "a");
  event.held = Milliseconds(std::int64_t{1} << 62);
  event.waited = Milliseconds(std::int64_t{1} << 62);
  EXPECT_NE(timeline_text({event, at(2, EventKind::acquired, "a")}, 0, 0, 80), "");
}

TEST(EventText, OneLine) {
  Event event = at(0, EventKind::released, "a");
  event.lock = {"n", "klock:n"};
  event.who = {"ann", "db1", 42, "import.sh", "weekly\x1b", {}};
  event.held = Milliseconds(65'000);
  event.reason = "exit 3";
  const std::string line = event_text(event);
  EXPECT_NE(
      line.find("released      n  ann@db1 pid 42 (import.sh), held 1m05s, reason: exit 3: weekly\\x1B\n"),
      std::string::npos)
      << line;
  event.mode = Mode::shared;
  EXPECT_NE(event_text(event).find(", shared"), std::string::npos);
}

}  // namespace
}  // namespace klock
