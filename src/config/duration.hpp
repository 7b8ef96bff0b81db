// SPDX-License-Identifier: MIT
#pragma once

#include "util/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace klock {

// "500ms", "15s", "2m", "1h", "1d"; a bare number is seconds; fractions allowed ("1.5h"); 0 to 365 d.
// No sign, no spaces, no exponent. nullopt: not a duration.
std::optional<Duration> parse_duration(std::string_view text);

// The shortest exact form ("15s", "1.5s", "200ms"), for messages.
std::string format_duration(Duration value);

}  // namespace klock
