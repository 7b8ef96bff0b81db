// SPDX-License-Identifier: MIT
#include "commands/ancestors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace klock {
namespace {

std::string token(int number) {
  std::string digits = std::to_string(number);
  return std::string(32 - digits.size(), '0') + digits;
}

class AncestorsTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("KLOCK_HELD");
    ::unsetenv("KLOCK_TOKEN");
  }
  void TearDown() override { SetUp(); }

  static std::vector<std::string> found() {
    std::vector<std::string> values;
    for (const Token& one : ancestor_tokens()) values.push_back(one.value);
    return values;
  }
};

TEST_F(AncestorsTest, NoneByDefault) {
  EXPECT_TRUE(found().empty());
  EXPECT_EQ(held_tokens({Token{token(1)}}), token(1));
}

TEST_F(AncestorsTest, HeldThenTheTokenEachOnce) {
  ::setenv("KLOCK_HELD", (token(1) + " " + token(2)).c_str(), 1);
  ::setenv("KLOCK_TOKEN", token(2).c_str(), 1);
  EXPECT_EQ(found(), (std::vector{token(1), token(2)}));
  ::setenv("KLOCK_TOKEN", token(3).c_str(), 1);
  EXPECT_EQ(found(), (std::vector{token(1), token(2), token(3)}));
  EXPECT_EQ(held_tokens({Token{token(4)}}), token(1) + " " + token(2) + " " + token(3) + " " + token(4));
}

TEST_F(AncestorsTest, WhatIsNoTokenIsLeftOut) {
  const std::string upper(32, 'A');
  for (const std::string& text : {std::string("  "), std::string("x"), upper, token(1) + "0",
                                  std::string("\n\x1b[2J"), std::string(99999, ' ')}) {
    ::setenv("KLOCK_HELD", (text + " " + token(7) + " " + text).c_str(), 1);
    ::setenv("KLOCK_TOKEN", text.c_str(), 1);
    EXPECT_EQ(found(), (std::vector{token(7)})) << text;
  }
}

TEST_F(AncestorsTest, ATokenTellsWhereItsHoldIs) {
  const KnownToken own{Token{token(3)}, Ground::host};
  EXPECT_EQ(token_text(own), "local:" + token(3));
  ::setenv("KLOCK_HELD", (token(1) + " none:" + token(2)).c_str(), 1);
  const std::string held = held_tokens(own);
  EXPECT_EQ(held, token(1) + " none:" + token(2) + " local:" + token(3));
  ::setenv("KLOCK_HELD", held.c_str(), 1);
  EXPECT_EQ(found(), (std::vector{token(1), token(3)})) << "nothing is held nowhere";
  EXPECT_EQ(known_tokens().at(1).ground, Ground::nowhere);
  for (const std::string& text :
       std::vector<std::string>{"local:", "local:x", "nowhere:" + token(1), "local:none:" + token(1)})
    EXPECT_FALSE(parse_token(text)) << text;
}

TEST_F(AncestorsTest, AtMost64TheOldestAndTheNewest) {
  std::string held;
  for (int i = 0; i < 100; ++i) held += token(i) + " ";
  ::setenv("KLOCK_HELD", held.c_str(), 1);
  ASSERT_EQ(found().size(), 64u);
  EXPECT_EQ(found().front(), token(0));
  EXPECT_EQ(found()[31], token(31));
  EXPECT_EQ(found()[32], token(68));
  EXPECT_EQ(found().back(), token(99));
  const std::string text = held_tokens({Token{token(100)}});
  EXPECT_EQ(text.size(), 64U * 33 - 1);
  EXPECT_TRUE(text.starts_with(token(0)) && text.ends_with(token(100)));
}

}  // namespace
}  // namespace klock
