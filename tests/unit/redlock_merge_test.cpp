// SPDX-License-Identifier: MIT
#include "store/redlock/doctor.hpp"
#include "store/redlock/merge.hpp"

#include <gtest/gtest.h>

namespace klock::redlock {
namespace {

LockState held_by(const std::string& id, Milliseconds left = Milliseconds(1000), std::uint64_t fence = 1) {
  LockState state;
  state.lock = {"n", "klock:n"};
  state.occupancy = Occupancy::held;
  Holder holder;
  holder.id = holder.fingerprint = id;
  holder.expires_in = left;
  holder.fence = fence;
  state.holders.push_back(holder);
  return state;
}

LockState free_lock() {
  LockState state;
  state.lock = {"n", "klock:n"};
  return state;
}

const LockName k_lock{"n", "klock:n"};

TEST(MergeStates, AHoldIsShownWithTheServersThatHaveIt) {
  const LockState merged =
      merge_states(k_lock, {held_by("a", Milliseconds(900), 5), held_by("a", Milliseconds(700), 8),
                            held_by("a", Milliseconds(800), 5), free_lock(), std::nullopt});
  EXPECT_EQ(merged.servers, 5U);
  EXPECT_EQ(merged.answered, 4U);
  ASSERT_EQ(merged.holders.size(), 1U);
  EXPECT_EQ(merged.holders[0].servers, 3U);
  EXPECT_EQ(merged.holders[0].fence, 8U);
  EXPECT_EQ(merged.holders[0].expires_in, Milliseconds(700)) << "then it is no majority any more";
}

TEST(MergeStates, AMinorityHoldsNothing) {
  const LockState merged =
      merge_states(k_lock, {held_by("a"), held_by("a"), free_lock(), free_lock(), free_lock()});
  EXPECT_EQ(merged.occupancy, Occupancy::free);
  EXPECT_TRUE(merged.holders.empty());
}

TEST(MergeStates, TheSilentOnesMayHaveItToo) {
  const LockState merged =
      merge_states(k_lock, {held_by("a"), held_by("a"), free_lock(), free_lock(), std::nullopt});
  EXPECT_EQ(merged.occupancy, Occupancy::held);
  EXPECT_EQ(merged.holders[0].servers, 2U);
}

TEST(MergeStates, MinoritiesThatBlockEachOtherAreShown) {
  const LockState merged =
      merge_states(k_lock, {held_by("a"), held_by("a"), held_by("b"), free_lock(), free_lock()});
  EXPECT_EQ(merged.occupancy, Occupancy::held);
  ASSERT_EQ(merged.holders.size(), 2U);
  EXPECT_EQ(merged.holders[0].id, "a");
}

TEST(MergeLists, WhoDoesNotNameALockHasNothingOfIt) {
  using List = std::vector<LockState>;
  LockState other = held_by("b");
  other.lock = {"m", "klock:m"};
  const auto merged = merge_lists({List{held_by("a"), other}, List{held_by("a")}, List{}});
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].lock.name, "n");
  EXPECT_EQ(merged[0].holders[0].servers, 2U);
}

Event event(EventKind kind, const std::string& id, std::int64_t at) {
  Event one;
  one.kind = kind;
  one.id = id;
  one.wall_us = at;
  one.lock = k_lock;
  return one;
}

TEST(EventMerger, TellsEachEventOnce) {
  using Page = std::vector<Event>;
  EventMerger merger;
  const auto merged = merger.merge(
      {Page{event(EventKind::acquired, "a", 10), event(EventKind::released, "a", 30)},
       Page{event(EventKind::acquired, "a", 9), event(EventKind::acquired, "b", 40)}, std::nullopt});
  ASSERT_EQ(merged.size(), 3U);
  EXPECT_EQ(merged[0].wall_us, 9);
  EXPECT_EQ(merged[1].kind, EventKind::released);
  EXPECT_EQ(merged[2].id, "b");
  const auto more =
      merger.merge({Page{event(EventKind::acquired, "b", 41)}, Page{event(EventKind::released, "a", 31)},
                    Page{event(EventKind::acquired, "a", 10), event(EventKind::lost, "b", 50)}});
  ASSERT_EQ(more.size(), 1U) << "the others were told before";
  EXPECT_EQ(more[0].kind, EventKind::lost);
}

TEST(EventMerger, TheSameMayHappenAgain) {
  using Page = std::vector<Event>;
  const auto late = [](std::int64_t at) { return event(EventKind::renewed_late, "a", at); };
  EXPECT_EQ(EventMerger().merge({Page{late(1), late(2)}, Page{late(1), late(2), late(3)}}).size(), 3U);
}

TEST(Positions, OneForEachServer) {
  const std::vector<std::string> three{"1-1", "", "3-0"};
  EXPECT_EQ(split_positions(join_positions(three), 3), three);
  EXPECT_EQ(split_positions("", 3), (std::vector<std::string>(3)));
}

TEST(MergeStatistics, TakesTheServerThatHasCountedMost) {
  GroupStatistics few;
  few.group = "g";
  few.counts[1] = 2;
  GroupStatistics many = few;
  many.counts[1] = 5;
  using Groups = std::vector<GroupStatistics>;
  const auto merged = merge_statistics({Groups{few}, std::nullopt, Groups{many}});
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].counts[1], 5U);
}

TEST(DelayedRestart, ARecentRestartWithoutItsVotesIsADanger) {
  const auto findings = explain_restart(
      {{Severity::warning, "restart", "up for 3 seconds", "wait"}, {Severity::ok, "eviction", "noeviction"}});
  EXPECT_EQ(findings[0].severity, Severity::danger);
  EXPECT_NE(findings[0].remedy.find("one lease"), std::string::npos);
  EXPECT_EQ(findings[1].severity, Severity::ok);
}

std::vector<redis::ServerFindings> with_scripts(const std::vector<bool>& allowed) {
  std::vector<redis::ServerFindings> servers;
  for (const bool one : allowed) {
    redis::ServerFindings server{"h" + std::to_string(servers.size() + 1),
                                 {{Severity::ok, "server", "Redis"}}};
    if (!one)
      server.findings.push_back(
          {Severity::warning, "scripts", "this user may not run EVAL: only exclusive locks", "+eval"});
    servers.push_back(std::move(server));
  }
  return servers;
}

TEST(Scripts, AreADangerWhereNoMajorityMayRunThem) {
  auto few = with_scripts({false, true, true});
  explain_scripts(few, 3);
  EXPECT_EQ(few[0].findings[1].severity, Severity::warning);
  EXPECT_EQ(few[0].findings[1].what, "this user may not run EVAL: it takes no part");
  auto many = with_scripts({false, true, false});
  explain_scripts(many, 3);
  EXPECT_EQ(many[0].findings[1].severity, Severity::danger);
  EXPECT_EQ(many[2].findings[1].remedy, "+eval");
  auto one_is_missing = with_scripts({true, false});
  explain_scripts(one_is_missing, 3);
  EXPECT_EQ(one_is_missing[1].findings[1].severity, Severity::danger);
  EXPECT_EQ(one_is_missing[0].findings.size(), 1U);
}

TEST(Names, OneServerUnderTwoIsADanger) {
  std::vector<redis::ServerFindings> servers = with_scripts({true, true, true, true});
  EXPECT_TRUE(judge_names(servers).empty()) << "none tells who it is";
  servers[0].findings[0].identity = servers[2].findings[0].identity = "a";
  servers[1].findings[0].identity = "b";
  const auto findings = judge_names(servers);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::danger);
  EXPECT_NE(findings[0].what.find("h1 and h3 are one server"), std::string::npos) << findings[0].what;
}

TEST(Majority, MissingServersAreAWarning) {
  EXPECT_EQ(judge_majority(5, {}).severity, Severity::ok);
  EXPECT_EQ(judge_majority(4, {}).severity, Severity::warning);
  EXPECT_NE(judge_majority(5, {"h:1: no answer"}).what.find("4 of 5"), std::string::npos);
}

}  // namespace
}  // namespace klock::redlock
