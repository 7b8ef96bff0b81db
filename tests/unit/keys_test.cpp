// SPDX-License-Identifier: MIT
#include "output/keys.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace klock {
namespace {

std::vector<Key> keys_of(std::string input, bool complete = false) {
  std::vector<Key> keys;
  while (const auto press = take_key(input, complete)) keys.push_back(press->key);
  return keys;
}

using Keys = std::vector<Key>;

TEST(TakeKey, Characters) {
  std::string input = "aé日";
  std::string typed;
  while (const auto press = take_key(input, false)) {
    EXPECT_EQ(press->key, Key::text);
    typed += press->text + "|";
  }
  EXPECT_EQ(typed, "a|é|日|");
  EXPECT_EQ(input, "");
}

TEST(TakeKey, ControlKeys) {
  EXPECT_EQ(keys_of("\r\n\x7f\b\x15"),
            (Keys{Key::enter, Key::enter, Key::backspace, Key::backspace, Key::erase_line}));
  EXPECT_EQ(keys_of("\x01\t"), (Keys{Key::other, Key::other}));
}

TEST(TakeKey, Sequences) {
  EXPECT_EQ(keys_of("\033[A\033OA\033[B\033[5~\033[6~\033[H\033OF\033[1~\033[4~"),
            (Keys{Key::up, Key::up, Key::down, Key::page_up, Key::page_down, Key::home, Key::end, Key::home,
                  Key::end}));
  EXPECT_EQ(keys_of("\033[1;5C\033[15~x"), (Keys{Key::other, Key::other, Key::text}));
}

TEST(TakeKey, WaitsForTheRestOfASequence) {
  std::string input;
  for (const char* part : {"\033", "["}) {
    input += part;
    EXPECT_FALSE(take_key(input, false));
  }
  input += "A";
  EXPECT_EQ(take_key(input, false)->key, Key::up);
}

TEST(TakeKey, EscapeIsTheKeyWhenNothingOrAnotherKeyFollows) {
  EXPECT_EQ(keys_of("\033"), Keys{});
  EXPECT_EQ(keys_of("\033", true), Keys{Key::escape});
  EXPECT_EQ(keys_of("\033q"), (Keys{Key::escape, Key::text}));
  EXPECT_EQ(keys_of("\033\033", true), (Keys{Key::escape, Key::escape}));
  EXPECT_EQ(keys_of("\033[", true), Keys{Key::other});
}

TEST(TakeKey, WaitsForTheRestOfACharacter) {
  std::string input = "\xc3";
  EXPECT_FALSE(take_key(input, false));
  input += "\xa9";
  EXPECT_EQ(take_key(input, false)->text, "é");
}

TEST(TakeKey, NeverHangsOnNonsense) {
  EXPECT_EQ(keys_of("\xff"), Keys{Key::other});
  EXPECT_EQ(keys_of("\xc3\xc3\xc3\xc3q").back(), Key::text);
  EXPECT_EQ(keys_of("\033[\033[A").back(), Key::up);
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      std::string input{static_cast<char>(first), static_cast<char>(second)};
      while (take_key(input, true)) {
      }
      EXPECT_EQ(input, "");
    }
}

}  // namespace
}  // namespace klock
