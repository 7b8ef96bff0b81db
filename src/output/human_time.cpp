// SPDX-License-Identifier: MIT
#include "output/human_time.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace klock {
namespace {

std::string two_units(std::int64_t large, const char* large_name, std::int64_t small,
                      const char* small_name) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld%s%02lld%s", static_cast<long long>(large), large_name,
                static_cast<long long>(small), small_name);
  return text.data();
}

}  // namespace

std::string human_duration(std::chrono::milliseconds value) {
  const std::int64_t ms = std::max<std::int64_t>(value.count(), 0);
  const std::int64_t s = ms / 1000;
  if (ms == 0) return "0s";
  if (s == 0) return std::to_string(ms) + "ms";
  if (s < 60) return std::to_string(s) + "s";
  if (s < 3600) return two_units(s / 60, "m", s % 60, "s");
  if (s < 86400) return two_units(s / 3600, "h", s / 60 % 60, "m");
  return two_units(s / 86400, "d", s / 3600 % 24, "h");
}

}  // namespace klock
