// SPDX-License-Identifier: MIT
#include "store/redis/event_log.hpp"

#include <gtest/gtest.h>

namespace klock::redis {
namespace {

Reply string_of(const std::string& text) {
  return {Reply::Type::string, text, 0, {}};
}

// Of an entry that was written at 5,000 ms.
std::optional<Event> event_with(const std::string& at) {
  Reply fields{Reply::Type::array, {}, 0, {}};
  for (const char* word : {"event", "released", "key", "klock:n", "at"})
    fields.items.push_back(string_of(word));
  fields.items.push_back(string_of(at));
  return parse_event_entry({Reply::Type::array, {}, 0, {string_of("5000-0"), fields}}, "klock:");
}

TEST(EventLog, AnEventThatWasNotedLateTellsWhenItWas) {
  EXPECT_EQ(event_with("3000")->wall_us, 3'000'000);
  EXPECT_EQ(event_with("-9223372036854775807")->wall_us, 0);
  EXPECT_GT(event_with("9223372036854775807")->wall_us, 0);
}

}  // namespace
}  // namespace klock::redis
