// SPDX-License-Identifier: MIT
#include "util/wall_time.hpp"

#include <time.h>

#include <array>
#include <cstdio>

namespace klock {
namespace {

constexpr std::int64_t k_year_10000_ms = 253'402'300'800'000;

using Calendar = tm* (*)(const time_t*, tm*);

// "2026-11-29 17:53:00" with `between` in the middle.
std::string format_time(std::int64_t wall_ms, Calendar calendar, char between) {
  if (wall_ms < 0 || wall_ms >= k_year_10000_ms) return {};
  const auto seconds = static_cast<time_t>(wall_ms / 1000);
  tm parts{};
  if (!calendar(&seconds, &parts)) return {};
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02d%c%02d:%02d:%02d", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, between, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

// ".123Z"
std::string fraction(std::int64_t part, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), ".%0*lldZ", digits, static_cast<long long>(part));
  return text.data();
}

}  // namespace

std::string local_time(std::int64_t wall_ms) {
  return format_time(wall_ms, ::localtime_r, ' ');
}

std::string utc_time(std::int64_t wall_ms) {
  const std::string seconds = format_time(wall_ms, ::gmtime_r, 'T');
  return seconds.empty() ? seconds : seconds + fraction(wall_ms % 1000, 3);
}

std::string utc_time_us(std::int64_t wall_us) {
  const std::string seconds = format_time(wall_us / 1000, ::gmtime_r, 'T');
  return seconds.empty() ? seconds : seconds + fraction(wall_us % 1'000'000, 6);
}

std::optional<std::int64_t> parse_utc_time_us(std::string_view text) {
  tm parts{};
  int us = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &us) != 7)
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const std::int64_t wall_us = static_cast<std::int64_t>(timegm(&parts)) * 1'000'000 + us;
  // What no calendar has (month 13) came out as another day.
  if (utc_time_us(wall_us) != text) return std::nullopt;
  return wall_us;
}

}  // namespace klock
