// SPDX-License-Identifier: MIT
#include "output/display_width.hpp"

#include <gtest/gtest.h>

namespace klock {
namespace {

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("größe"), 5U);
  EXPECT_EQ(display_width("日本"), 4U);
  EXPECT_EQ(display_width("한"), 2U);
  EXPECT_EQ(display_width("🔒"), 2U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("\xff"), 1U);
}

TEST(FitToWidth, PadsWhatIsShort) {
  EXPECT_EQ(fit_to_width("ab", 4), "ab  ");
  EXPECT_EQ(fit_to_width("", 2), "  ");
  EXPECT_EQ(fit_to_width("日本", 5), "日本 ");
}

TEST(FitToWidth, LeavesWhatFits) {
  EXPECT_EQ(fit_to_width("abcd", 4), "abcd");
  EXPECT_EQ(fit_to_width("日本", 4), "日本");
}

TEST(FitToWidth, CutsWithoutHalvingACharacter) {
  EXPECT_EQ(fit_to_width("abcdef", 5), "abc..");
  EXPECT_EQ(fit_to_width("日本語", 5), "日.. ") << "the second one would end in the last column but two";
  EXPECT_EQ(fit_to_width("größeres", 6), "größ..");
  EXPECT_EQ(fit_to_width("e\u0301e\u0301e\u0301", 2), "e\u0301e\u0301");
}

TEST(FitToWidth, TakesAnyWidth) {
  EXPECT_EQ(fit_to_width("abc", 0), "");
  EXPECT_EQ(fit_to_width("abc", 1), "a");
  EXPECT_EQ(fit_to_width("abc", 2), "ab");
  EXPECT_EQ(fit_to_width("日本", 1), " ");
}

}  // namespace
}  // namespace klock
