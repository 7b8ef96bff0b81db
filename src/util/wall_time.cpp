// SPDX-License-Identifier: MIT
#include "util/wall_time.hpp"

#include <time.h>

#include <array>
#include <chrono>
#include <cstdio>

namespace klock {
namespace {

constexpr std::int64_t k_year_10000_ms = 253'402'300'800'000;

// "2026-11-29 17:53:00" with `between` in the middle.
std::string date_text(const tm& parts, char between) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02d%c%02d:%02d:%02d", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, between, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

bool has_four_digit_year(std::int64_t wall_ms) {
  return wall_ms >= 0 && wall_ms < k_year_10000_ms;
}

// Not gmtime_r(): that reads the local time zone's file.
tm utc_parts(std::int64_t wall_ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(wall_ms)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  tm parts{};
  parts.tm_year = static_cast<int>(date.year()) - 1900;
  parts.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  parts.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  parts.tm_hour = static_cast<int>(clock.hours().count());
  parts.tm_min = static_cast<int>(clock.minutes().count());
  parts.tm_sec = static_cast<int>(clock.seconds().count());
  return parts;
}

// `part` of a second, in `digits`.
std::string utc_text(std::int64_t wall_ms, std::int64_t part, int digits) {
  if (!has_four_digit_year(wall_ms)) return {};
  std::array<char, 32> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%0*lldZ", digits, static_cast<long long>(part));
  return date_text(utc_parts(wall_ms), 'T') + fraction.data();
}

}  // namespace

std::string local_time(std::int64_t wall_ms) {
  const auto seconds = static_cast<time_t>(wall_ms / 1000);
  tm parts{};
  if (!has_four_digit_year(wall_ms) || !::localtime_r(&seconds, &parts)) return {};
  return date_text(parts, ' ');
}

std::string utc_time(std::int64_t wall_ms) {
  return utc_text(wall_ms, wall_ms % 1000, 3);
}

std::string utc_time_us(std::int64_t wall_us) {
  return utc_text(wall_us / 1000, wall_us % 1'000'000, 6);
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
