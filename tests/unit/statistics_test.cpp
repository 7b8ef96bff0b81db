// SPDX-License-Identifier: MIT
#include "lease/statistics.hpp"

#include "output/statistics.hpp"
#include "store/local/statistics_file.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace klock {
namespace {

Event event_of(EventKind kind, std::int64_t held_ms = -1) {
  Event event;
  event.wall_us = 1'795'974'780'123'000;
  event.kind = kind;
  if (held_ms >= 0) event.held = Milliseconds(held_ms);
  return event;
}

TEST(Histogram, BucketsHoldWhatTheySay) {
  EXPECT_EQ(Histogram::bucket_of(Milliseconds(-5)), 0U);
  EXPECT_EQ(Histogram::bucket_of(Milliseconds(0)), 0U);
  for (std::int64_t ms = 1; ms < 2'000'000'000; ms = ms * 5 / 4 + 1) {
    const std::size_t bucket = Histogram::bucket_of(Milliseconds(ms));
    EXPECT_LE(ms, Histogram::upper_bound(bucket).count() + 1) << ms;
    EXPECT_GE(ms + 1, Histogram::upper_bound(bucket - 1).count()) << ms;
  }
  EXPECT_EQ(Histogram::bucket_of(Milliseconds(std::int64_t{1} << 60)), Histogram::k_buckets - 1);
}

TEST(Histogram, Percentiles) {
  Histogram times;
  EXPECT_EQ(times.percentile(0.5), std::nullopt);
  for (int i = 1; i <= 100; ++i) times.add(Milliseconds(i * 10));
  EXPECT_EQ(times.total(), 100U);
  EXPECT_EQ(times.sum_ms, 50'500U);
  EXPECT_NEAR(static_cast<double>(times.percentile(0.5)->count()), 500, 95);
  EXPECT_NEAR(static_cast<double>(times.percentile(0.95)->count()), 950, 180);
  EXPECT_EQ(times.percentile(1), Milliseconds(1000)) << "never longer than the longest";
  Histogram zeros;
  zeros.add(Milliseconds(0));
  EXPECT_EQ(zeros.percentile(0.99), Milliseconds(0));
}

TEST(GroupOf, UpToTheColonOrAsChosen) {
  EXPECT_EQ(group_of("import:42:a", ""), "import");
  EXPECT_EQ(group_of("import", ""), "import");
  EXPECT_EQ(group_of("import:42", "nightly"), "nightly");
}

TEST(GroupStatistics, CountsEvents) {
  GroupStatistics group;
  Event waited = event_of(EventKind::acquired);
  waited.waited = Milliseconds(500);
  waited.ttl = Milliseconds(15'000);
  group.add(event_of(EventKind::waiting));
  group.add(waited);
  Event refused = event_of(EventKind::timed_out);
  refused.waited = Milliseconds(0);
  group.add(refused);
  Event late = event_of(EventKind::timed_out);
  late.waited = Milliseconds(300);
  group.add(late);
  group.add(event_of(EventKind::released, 2000));
  Event maintenance = event_of(EventKind::released, 60'000);
  maintenance.unrenewed = true;
  group.add(maintenance);
  EXPECT_EQ(group.attempts(), 3U);
  EXPECT_EQ(group.conflicts(), 2U);
  EXPECT_EQ(group.waited.total(), 1U);
  EXPECT_EQ(group.held.max_ms, 2000U);
  EXPECT_EQ(group.unrenewed.max_ms, 60'000U);
  EXPECT_EQ(group.ttl_ms, 15'000U);
}

GroupStatistics holds(int count, std::int64_t ms) {
  GroupStatistics group;
  for (int i = 0; i < count; ++i) group.add(event_of(EventKind::released, ms));
  return group;
}

std::string only_advice(const GroupStatistics& group) {
  const auto all = advice_for(group);
  return all.size() == 1 ? all[0] : std::to_string(all.size()) + " pieces of advice";
}

TEST(Advice, NoneWhenAllIsWell) {
  EXPECT_TRUE(advice_for({}).empty());
  EXPECT_TRUE(advice_for(holds(100, 30'000)).empty());
}

TEST(Advice, MaxHoldForOutliers) {
  GroupStatistics group = holds(100, 30'000);
  group.add(event_of(EventKind::released, 3'600'000));
  EXPECT_NE(only_advice(group).find("--max-hold"), std::string::npos);
  GroupStatistics few = holds(3, 30'000);
  few.add(event_of(EventKind::released, 3'600'000));
  EXPECT_TRUE(advice_for(few).empty()) << "too few to tell";
}

TEST(Advice, ALeaseThatOutagesComeCloseTo) {
  GroupStatistics group = holds(1, 1000);
  group.ttl_ms = 3000;
  Event late = event_of(EventKind::renewed_late);
  late.late = Milliseconds(2500);
  group.add(late);
  EXPECT_NE(only_advice(group).find("--ttl 8s"), std::string::npos) << only_advice(group);
  group.ttl_ms = 15'000;
  EXPECT_TRUE(advice_for(group).empty()) << "it leaves room";
}

TEST(Advice, ALeaseThatNobodyRenewsAndThatIsTooShort) {
  GroupStatistics group;
  group.unrenewed_ttl_ms = 60'000;
  for (int i = 0; i < 30; ++i) {
    Event event = event_of(EventKind::released, 58'000);
    event.unrenewed = true;
    group.add(event);
  }
  EXPECT_NE(only_advice(group).find("nobody renews"), std::string::npos);
}

TEST(Advice, WaitsThatAreTooShort) {
  GroupStatistics group = holds(100, 10'000);
  for (int i = 0; i < 50; ++i) {
    Event event = event_of(EventKind::timed_out);
    event.waited = Milliseconds(1000);
    group.add(event);
  }
  EXPECT_NE(only_advice(group).find("--wait"), std::string::npos);
}

TEST(StatisticsText, SaysWhatWasCounted) {
  GroupStatistics group = holds(10, 1000);
  group.group = "im\x1bport";
  group.add(event_of(EventKind::forced, 2000));
  const std::string text = statistics_text({group});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("1 forced"), std::string::npos);
  EXPECT_NE(text.find("max 2s"), std::string::npos);
  EXPECT_NE(text.find("[#"), std::string::npos) << text;
  EXPECT_EQ(statistics_text({}), "");
}

class StatisticsFileTest : public testing::Test {
 protected:
  const test::ScratchDirectory scratch_;
  const StatisticsFile file_{scratch_.file(""), 0600};
};

TEST_F(StatisticsFileTest, WhatIsAddedIsRead) {
  EXPECT_TRUE(file_.read()->empty());
  ASSERT_TRUE(file_.add("b", event_of(EventKind::released, 2000)));
  ASSERT_TRUE(file_.add("a", event_of(EventKind::acquired)));
  ASSERT_TRUE(file_.add("b", event_of(EventKind::released, 4000)));
  const auto groups = file_.read();
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ((*groups)[0].group, "a");
  EXPECT_EQ((*groups)[1].count(EventKind::released), 2U);
  EXPECT_EQ((*groups)[1].held.sum_ms, 6000U);
  EXPECT_EQ((*groups)[1].since_wall_ms, 1'795'974'780'123);
}

TEST_F(StatisticsFileTest, ItDoesNotGrowWithTheNumberOfGroups) {
  for (std::size_t i = 0; i < k_most_groups + 100; ++i)
    ASSERT_TRUE(file_.add("g" + std::to_string(i), event_of(EventKind::acquired)));
  const auto groups = file_.read();
  EXPECT_LE(groups->size(), k_most_groups + 1);
  EXPECT_EQ(groups->front().group, k_other_group);
  EXPECT_EQ(groups->front().count(EventKind::acquired) + groups->size() - 1, k_most_groups + 100);
}

TEST_F(StatisticsFileTest, ManyCountAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> counted = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) counted += file_.add("g", event_of(EventKind::acquired)) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(counted, 0);
  EXPECT_EQ(file_.read()->front().count(EventKind::acquired), static_cast<std::uint64_t>(counted));
}

TEST_F(StatisticsFileTest, AFileThatIsNotOursIsLeftOut) {
  std::ofstream(scratch_.file("statistics")) << std::string(100'000, 'x');
  EXPECT_TRUE(file_.read()->empty());
}

TEST_F(StatisticsFileTest, LongNamesAreCut) {
  ASSERT_TRUE(file_.add(std::string(1000, 'n'), event_of(EventKind::acquired)));
  EXPECT_EQ(file_.read()->front().group, std::string(200, 'n'));
}

}  // namespace
}  // namespace klock
