// SPDX-License-Identifier: MIT
#include "config/duration.hpp"

#include <array>
#include <cstdint>

namespace klock {
namespace {

constexpr Duration k_limit = std::chrono::hours(365 * 24);

struct Unit {
  std::string_view name;
  Duration length;
};

// Largest first: format_duration() takes the first that divides.
constexpr std::array<Unit, 5> k_units{{{"d", std::chrono::hours(24)},
                                       {"h", std::chrono::hours(1)},
                                       {"m", std::chrono::minutes(1)},
                                       {"s", std::chrono::seconds(1)},
                                       {"ms", std::chrono::milliseconds(1)}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<Duration> unit_length(std::string_view name) {
  if (name.empty()) return std::chrono::seconds(1);
  for (const Unit& unit : k_units)
    if (unit.name == name) return unit.length;
  return std::nullopt;
}

// The leading digits of `text`, which is advanced past them.
std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::string fraction(Duration value, const Unit& unit) {
  std::string text = std::to_string(value / unit.length);
  std::int64_t rest = (value % unit.length).count();
  if (rest != 0) text += '.';
  for (std::int64_t scale = unit.length.count() / 10; rest != 0 && scale != 0; scale /= 10) {
    text += static_cast<char>('0' + rest / scale);
    rest %= scale;
  }
  return text.append(unit.name);
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const std::string_view whole = take_digits(text);
  std::string_view part;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    part = take_digits(text);
    if (part.empty()) return std::nullopt;
  }
  if (whole.empty() && part.empty()) return std::nullopt;
  const std::optional<Duration> unit = unit_length(text);
  if (!unit) return std::nullopt;

  std::int64_t count = 0;
  for (const char digit : whole) {
    count = count * 10 + (digit - '0');
    if (count > k_limit / *unit) return std::nullopt;
  }
  Duration value = *unit * count;
  Duration scale = *unit;
  for (const char digit : part) {
    scale /= 10;
    value += scale * (digit - '0');
  }
  if (value > k_limit) return std::nullopt;
  return value;
}

std::string format_duration(Duration value) {
  if (value < Duration::zero()) return "-" + format_duration(-value);
  if (value == Duration::zero()) return "0s";
  for (const Unit& unit : k_units)
    if (value % unit.length == Duration::zero() && unit.name != "ms")
      return std::to_string(value / unit.length).append(unit.name);
  return fraction(value, value < std::chrono::seconds(1) ? k_units[4] : k_units[3]);
}

}  // namespace klock
