// SPDX-License-Identifier: MIT
#include "config/duration.hpp"

#include <gtest/gtest.h>

#include <random>

namespace klock {
namespace {

using namespace std::chrono_literals;

constexpr Duration k_day = 24h;

TEST(ParseDuration, KnowsEveryUnit) {
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("15s"), 15s);
  EXPECT_EQ(parse_duration("15"), 15s);
  EXPECT_EQ(parse_duration("2m"), 2min);
  EXPECT_EQ(parse_duration("1h"), 1h);
  EXPECT_EQ(parse_duration("1d"), k_day);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("000"), 0s);
  EXPECT_EQ(parse_duration("007s"), 7s);
}

TEST(ParseDuration, TakesFractionsExactly) {
  EXPECT_EQ(parse_duration("1.5h"), 90min);
  EXPECT_EQ(parse_duration("0.5"), 500ms);
  EXPECT_EQ(parse_duration(".5s"), 500ms);
  EXPECT_EQ(parse_duration("0.1s"), 100ms);
  EXPECT_EQ(parse_duration("0.000000001"), 1ns);
  EXPECT_EQ(parse_duration("0.25ms"), 250us);
  EXPECT_EQ(parse_duration("0.00000000000000000000000000000009d"), 0s);
}

TEST(ParseDuration, StopsAt365Days) {
  EXPECT_EQ(parse_duration("365d"), 365 * k_day);
  EXPECT_EQ(parse_duration("8760h"), 365 * k_day);
  EXPECT_EQ(parse_duration("31536000"), 365 * k_day);
  EXPECT_EQ(parse_duration("31536000000ms"), 365 * k_day);
  for (const char* text :
       {"366d", "365.1d", "8761h", "31536001", "31536000.1", "31536000001ms", "9223372036854775807",
        "9223372036854775808ms", "18446744073709551616", "99999999999999999999999999999999d"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

TEST(ParseDuration, RefusesNonsense) {
  for (const char* text :
       {"",     " ",   "-1",   "-0",   "+1",    "5 s",  " 5",   "5 ",    "1e3",  "nan", "inf",
        "5x",   "s",   "ms",   ".",    ".s",    "5.",   "5.s",  "1.2.3", "5ss",  "5S",  "5M",
        "5min", "5us", "0x10", "1,5s", "5m30s", "five", "5s\n", "٥",     "1_000"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << "'" << text << "'";
  EXPECT_EQ(parse_duration(std::string_view("5\0s", 3)), std::nullopt);
  EXPECT_EQ(parse_duration(std::string_view("5s\0", 3)), std::nullopt);
}

TEST(ParseDuration, StaysInRangeWhateverIsGiven) {
  std::mt19937 random(1);
  constexpr std::string_view k_letters = "0123456789..dhmsx-+ e";
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = k_letters[random() % k_letters.size()];
    if (const auto value = parse_duration(text)) {
      EXPECT_GE(*value, 0s) << text;
      EXPECT_LE(*value, 365 * k_day) << text;
    }
  }
}

TEST(FormatDuration, IsShort) {
  EXPECT_EQ(format_duration(0s), "0s");
  EXPECT_EQ(format_duration(15s), "15s");
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(120s), "2m");
  EXPECT_EQ(format_duration(1h), "1h");
  EXPECT_EQ(format_duration(30 * k_day), "30d");
  EXPECT_EQ(format_duration(1500ms), "1.5s");
  EXPECT_EQ(format_duration(200ms), "200ms");
  EXPECT_EQ(format_duration(250us), "0.25ms");
  EXPECT_EQ(format_duration(-5s), "-5s");
}

TEST(FormatDuration, ReadsBackTheSame) {
  std::mt19937_64 random(2);
  const auto limit = static_cast<std::uint64_t>(Duration(365 * k_day).count());
  for (int i = 0; i < 20'000; ++i) {
    Duration value(static_cast<std::int64_t>(random() % limit));
    if (i % 2 == 0) value -= value % 1s;
    if (i % 3 == 0) value /= 1'000'000;
    EXPECT_EQ(parse_duration(format_duration(value)), value) << format_duration(value);
  }
}

}  // namespace
}  // namespace klock
