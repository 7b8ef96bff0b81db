// SPDX-License-Identifier: MIT
#include "output/keys.hpp"

#include "output/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace klock {
namespace {

constexpr char k_escape = '\033';

struct Taken {
  KeyPress press;
  std::size_t length = 0;  // 0: more has to come
};

// What stands between "ESC [" or "ESC O" and the end of a sequence, with its end.
constexpr std::array<std::pair<std::string_view, Key>, 11> k_sequences{
    {{"A", Key::up},
     {"B", Key::down},
     {"H", Key::home},
     {"F", Key::end},
     {"5~", Key::page_up},
     {"6~", Key::page_down},
     {"1~", Key::home},
     {"7~", Key::home},
     {"4~", Key::end},
     {"8~", Key::end},
     {"M", Key::enter}}};  // of the number pad

Taken take_sequence(std::string_view input) {
  if (input.size() == 1) return {};
  if (input[1] != '[' && input[1] != 'O') return {{Key::escape}, 1};
  for (std::size_t at = 2; at < input.size(); ++at) {
    const auto byte = static_cast<unsigned char>(input[at]);
    // Not a sequence after all: what follows counts by itself.
    if (byte < 0x20 || byte > 0x7e) return {{}, at};
    if (byte < 0x40) continue;
    for (const auto& [sequence, key] : k_sequences)
      if (input.substr(2, at - 1) == sequence) return {{key}, at + 1};
    return {{}, at + 1};
  }
  return {};
}

bool begins_character(std::string_view input) {
  const auto lead = static_cast<unsigned char>(input[0]);
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return lead >= 0xc2 && lead <= 0xf4 && input.size() < length &&
         std::all_of(input.begin() + 1, input.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

Taken take_character(std::string_view input) {
  const CodePoint point = decode_utf8(input);
  if (point.length != 0) return {{Key::text, std::string(input.substr(0, point.length))}, point.length};
  return {{}, begins_character(input) ? 0U : 1U};
}

Taken take(std::string_view input) {
  switch (input[0]) {
    case k_escape:
      return take_sequence(input);
    case '\r':
    case '\n':
      return {{Key::enter}, 1};
    case '\b':
    case '\x7f':
      return {{Key::backspace}, 1};
    case '\x15':
      return {{Key::erase_line}, 1};
    default:
      break;
  }
  if (static_cast<unsigned char>(input[0]) < 0x20) return {{}, 1};
  return take_character(input);
}

}  // namespace

std::optional<KeyPress> take_key(std::string& input, bool complete) {
  if (input.empty()) return std::nullopt;
  Taken taken = take(input);
  if (taken.length == 0) {
    if (!complete) return std::nullopt;
    const bool escape = input == std::string(1, k_escape);
    taken = {{escape ? Key::escape : Key::other}, input.size()};
  }
  input.erase(0, taken.length);
  return std::move(taken.press);
}

}  // namespace klock
