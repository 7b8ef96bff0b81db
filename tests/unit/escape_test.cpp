// SPDX-License-Identifier: MIT
#include "output/escape.hpp"

#include <gtest/gtest.h>

#include <random>

namespace klock {
namespace {

TEST(EscapeText, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(escape_text(""), "");
  EXPECT_EQ(escape_text("nightly import 'x' \"y\""), "nightly import 'x' \"y\"");
  EXPECT_EQ(escape_text("Größe 日本語 🔒"), "Größe 日本語 🔒");
  EXPECT_EQ(escape_text("e\u0301"), "e\u0301");
}

TEST(EscapeText, ControlCharacters) {
  EXPECT_EQ(escape_text("a\nb\r\tc"), "a\\x0Ab\\x0D\\x09c");
  EXPECT_EQ(escape_text("\x1b[31mred\a\x7f"), "\\x1B[31mred\\x07\\x7F");
  EXPECT_EQ(escape_text(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escape_text("\u009b31m\u0085"), "\\u{009B}31m\\u{0085}");
  EXPECT_EQ(escape_text("\x9b"
                        "31m"),
            "\\x9B31m");
}

TEST(EscapeText, CharactersThatHideOrReorderOthers) {
  EXPECT_EQ(escape_text("a\u202Eb"), "a\\u{202E}b");
  EXPECT_EQ(escape_text("\u2066x\u2069"), "\\u{2066}x\\u{2069}");
  EXPECT_EQ(escape_text("\u200e\u200f\u061c"), "\\u{200E}\\u{200F}\\u{061C}");
  EXPECT_EQ(escape_text("a\u200bb\u200dc"), "a\\u{200B}b\\u{200D}c");
  EXPECT_EQ(escape_text("\u2028\u2029\ufeff"), "\\u{2028}\\u{2029}\\u{FEFF}");
  EXPECT_EQ(escape_text("\U000E0041"), "\\u{E0041}");
}

TEST(EscapeText, InvalidUtf8) {
  EXPECT_EQ(escape_text("\xff\xfe"), "\\xFF\\xFE");
  EXPECT_EQ(escape_text("a\xc3"), "a\\xC3");
  EXPECT_EQ(escape_text("\xc0\xaf"), "\\xC0\\xAF");           // overlong '/'
  EXPECT_EQ(escape_text("\xe0\x80\x9b"), "\\xE0\\x80\\x9B");  // overlong CSI
  EXPECT_EQ(escape_text("\xed\xa0\x80"), "\\xED\\xA0\\x80");  // surrogate
  EXPECT_EQ(escape_text("\xf4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80");
  EXPECT_EQ(escape_text("\xe2\x82x"), "\\xE2\\x82x");
}

TEST(EscapeText, ABackslashCannotImitateAnEscape) {
  EXPECT_EQ(escape_text("\\x1B"), "\\\\x1B");
  EXPECT_NE(escape_text("\\x1B"), escape_text("\x1b"));
}

TEST(EscapeText, CutsBetweenCharacters) {
  EXPECT_EQ(escape_text("abcdef", 6), "abcdef");
  EXPECT_EQ(escape_text("abcdefg", 6), "abcdef...");
  EXPECT_EQ(escape_text("aaé", 3), "aa...");
  EXPECT_EQ(escape_text("aa\n", 4), "aa...");
  EXPECT_EQ(escape_text("x", 0), "...");
  EXPECT_EQ(escape_text(std::string(5000, 'x')).size(), 1003U);
}

TEST(TerminalSafe, IsIdempotentAndLetsNoControlThrough) {
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = static_cast<char>(random() % 256);
    const std::string safe = terminal_safe(text);
    EXPECT_EQ(terminal_safe(safe), safe);
    for (const char c : safe) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != '\x7f');
    EXPECT_EQ(terminal_safe(escape_text(text)), escape_text(text));
  }
  EXPECT_EQ(terminal_safe("a\\b\nc"), "a\\b\\x0Ac");
}

}  // namespace
}  // namespace klock
