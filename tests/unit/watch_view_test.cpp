// SPDX-License-Identifier: MIT
#include "output/watch_view.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace klock {
namespace {

using namespace std::chrono_literals;

LockState lock(const std::string& name, Milliseconds held, Milliseconds left, std::size_t waiters) {
  LockState state;
  state.lock = {name, "klock:" + name};
  state.occupancy = Occupancy::held;
  Holder holder;
  holder.who = {"ann", "db1", 7, "import.sh", "for " + name, ""};
  holder.held = held;
  holder.expires_in = left;
  state.holders = {holder};
  state.waiters.resize(waiters);
  return state;
}

const std::vector<LockState> k_states{lock("a", 5s, 9s, 1), lock("b", 20s, 3s, 0), lock("c", 1s, 12s, 4)};

std::string names(const WatchView& view, const std::vector<LockState>& states = k_states) {
  std::string text;
  for (const WatchRow& row : watch_rows(states, view)) text += row.state->lock.name;
  return text;
}

WatchView sorted_by(WatchSort sort, bool reversed = false) {
  WatchView view;
  view.sort = sort;
  view.reversed = reversed;
  return view;
}

bool press(WatchView& view, Key key) {
  return press(view, KeyPress{key}, {10, 30});
}

bool type(WatchView& view, const std::string& text) {
  bool stays = true;
  for (const char c : text) stays = press(view, KeyPress{Key::text, std::string(1, c)}, {10, 30}) && stays;
  return stays;
}

TEST(WatchRows, Order) {
  EXPECT_EQ(names(sorted_by(WatchSort::name)), "abc");
  EXPECT_EQ(names(sorted_by(WatchSort::age)), "bac");
  EXPECT_EQ(names(sorted_by(WatchSort::left)), "bac");
  EXPECT_EQ(names(sorted_by(WatchSort::waiters)), "cab");
  EXPECT_EQ(names(sorted_by(WatchSort::name, true)), "cba");
  EXPECT_EQ(names(sorted_by(WatchSort::waiters, true)), "bac");
}

TEST(WatchRows, WhatIsUnknownComesLast) {
  std::vector<LockState> states = k_states;
  states[1].holders[0].held.reset();
  states[1].holders[0].expires_in.reset();
  EXPECT_EQ(names(sorted_by(WatchSort::age), states), "acb");
  EXPECT_EQ(names(sorted_by(WatchSort::left), states), "acb");
}

TEST(WatchRows, TheLongestWaitDecidesBetweenAsManyWaiters) {
  std::vector<LockState> states = k_states;
  for (LockState& state : states) state.waiters.resize(1);
  states[2].waiters[0].waiting = 3s;
  states[1].waiters[0].waiting = 1s;
  EXPECT_EQ(names(sorted_by(WatchSort::waiters), states), "cba");
}

TEST(WatchRows, HoldersOfALockFollowEachOtherAlsoInReverse) {
  std::vector<LockState> states = k_states;
  states[0].holders.push_back(states[0].holders[0]);
  states[1].holders.clear();
  EXPECT_EQ(names(sorted_by(WatchSort::name, true), states), "cbaa");
  const auto rows = watch_rows(states, WatchView{});
  EXPECT_EQ(rows[0].holder, states[0].holders.data());
  EXPECT_EQ(rows[1].holder, &states[0].holders[1]);
  EXPECT_EQ(rows[2].holder, nullptr);
}

TEST(WatchRows, FilterLooksAtNameAndHolder) {
  WatchView view;
  const auto filtered = [&](const char* text) {
    view.filter = text;
    return names(view);
  };
  EXPECT_EQ(filtered("b"), "abc") << "of db1";
  EXPECT_EQ(filtered("for b"), "b");
  EXPECT_EQ(filtered("ann@db"), "abc");
  EXPECT_EQ(filtered("import"), "abc");
  EXPECT_EQ(filtered("nobody"), "");
}

TEST(WatchKeys, SortAndReverse) {
  WatchView view;
  for (const auto& [key, sort] : std::initializer_list<std::pair<char, WatchSort>>{{'a', WatchSort::age},
                                                                                   {'l', WatchSort::left},
                                                                                   {'w', WatchSort::waiters},
                                                                                   {'n', WatchSort::name}}) {
    EXPECT_TRUE(type(view, std::string(1, key)));
    EXPECT_EQ(view.sort, sort);
    EXPECT_FALSE(view.reversed);
    EXPECT_TRUE(type(view, "r"));
    EXPECT_TRUE(view.reversed);
  }
}

TEST(WatchKeys, Leave) {
  WatchView view;
  EXPECT_FALSE(type(view, "q"));
  EXPECT_FALSE(press(view, Key::escape));
  EXPECT_TRUE(type(view, "zé?"));
  EXPECT_TRUE(press(view, Key::other));
}

TEST(WatchKeys, FilterIsTypedKeptAndDropped) {
  WatchView view;
  view.top = 5;
  EXPECT_TRUE(type(view, "/"));
  EXPECT_TRUE(type(view, "quiet"));
  EXPECT_TRUE(view.typing);
  EXPECT_EQ(view.filter, "quiet");
  EXPECT_EQ(view.top, 0U);
  press(view, Key::backspace);
  EXPECT_EQ(view.filter, "quie");
  press(view, Key::enter);
  EXPECT_FALSE(view.typing);
  EXPECT_EQ(view.filter, "quie");
  EXPECT_TRUE(type(view, "/"));
  EXPECT_EQ(view.filter, "quie") << "it is there to be changed";
  EXPECT_TRUE(press(view, Key::escape)) << "drops it and stays";
  EXPECT_FALSE(view.typing);
  EXPECT_EQ(view.filter, "");
}

TEST(WatchKeys, BackspaceTakesAWholeCharacter) {
  WatchView view;
  view.typing = true;
  view.filter = "a日";
  press(view, Key::backspace);
  EXPECT_EQ(view.filter, "a");
  press(view, Key::backspace);
  press(view, Key::backspace);
  EXPECT_EQ(view.filter, "");
  type(view, "abc");
  press(view, Key::erase_line);
  EXPECT_EQ(view.filter, "");
}

TEST(WatchKeys, Scroll) {
  WatchView view;
  type(view, "jj");
  press(view, Key::down);
  EXPECT_EQ(view.top, 3U);
  type(view, "k");
  press(view, Key::up);
  EXPECT_EQ(view.top, 1U);
  press(view, Key::page_down);
  EXPECT_EQ(view.top, 11U);
  press(view, Key::page_up);
  press(view, Key::page_up);
  EXPECT_EQ(view.top, 0U);
  type(view, "k");
  EXPECT_EQ(view.top, 0U);
  press(view, Key::end);
  EXPECT_EQ(view.top, 30U);
  type(view, "jj");
  press(view, Key::page_down);
  EXPECT_EQ(view.top, 30U) << "no further, or the way back would be longer";
  press(view, Key::home);
  EXPECT_EQ(view.top, 0U);
}

}  // namespace
}  // namespace klock
