// SPDX-License-Identifier: MIT
#include "lease/stored_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace klock {
namespace {

nlohmann::json parsed(const char* text) {
  return nlohmann::json::parse(text, nullptr, false);
}

TEST(StoredJson, ReadsAPerson) {
  const Person who = person_of(parsed(
      R"({"user":"ann","host":"alpha","pid":12,"program":"import.sh","message":"back soon","origin":"boot"})"));
  EXPECT_EQ(who.user, "ann");
  EXPECT_EQ(who.host, "alpha");
  EXPECT_EQ(who.pid, 12);
  EXPECT_EQ(who.program, "import.sh");
  EXPECT_EQ(who.message, "back soon");
  EXPECT_EQ(who.origin, "boot");
}

TEST(StoredJson, WhatIsNotAsItShouldBeIsUnknown) {
  for (const char* bad :
       {"", "[]", "{", "7", R"({"pid":1e99,"user":[],"on":1})", R"({"pid":-4,"user":null,"on":"true"})",
        R"({"pid":99999999999,"user":3})", R"({"pid":"12"})", R"({"pid":18446744073709551615})"}) {
    EXPECT_EQ(person_of(parsed(bad)).pid, 0) << bad;
    EXPECT_EQ(text_of(parsed(bad), "user"), "") << bad;
    EXPECT_FALSE(flag_of(parsed(bad), "on")) << bad;
  }
  EXPECT_EQ(number_of(parsed(R"({"n":9223372036854775807})"), "n"), INT64_MAX);
  EXPECT_EQ(number_of(parsed(R"({"n":9223372036854775808})"), "n"), 0);
  EXPECT_EQ(text_of({{"text", std::string(5000, 'm')}}, "text").size(), 4096u);
}

}  // namespace
}  // namespace klock
