// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace klock {

// "2026-11-29 17:53:00", local time. `wall_ms`: milliseconds since 1970, from anywhere; "" if no calendar has
// it.
std::string local_time(std::int64_t wall_ms);

// "2026-11-29T16:53:00.123Z"; "" likewise.
std::string utc_time(std::int64_t wall_ms);

// "2026-11-29T16:53:00.123456Z", of microseconds since 1970.
std::string utc_time_us(std::int64_t wall_us);
// Of what utc_time_us() wrote; nullopt: anything else.
std::optional<std::int64_t> parse_utc_time_us(std::string_view text);

}  // namespace klock
