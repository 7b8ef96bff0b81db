// SPDX-License-Identifier: MIT
#include "output/escape.hpp"

#include "output/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace klock {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// What a terminal obeys, or what changes how its neighbours look without being seen itself.
constexpr std::array<Range, 15> k_hidden{{{0x00, 0x1f},
                                          {0x7f, 0x9f},
                                          {0xad, 0xad},          // soft hyphen
                                          {0x34f, 0x34f},        // grapheme joiner
                                          {0x61c, 0x61c},        // Arabic letter mark
                                          {0x115f, 0x1160},      // Hangul fillers
                                          {0x17b4, 0x17b5},      // Khmer inherent vowels
                                          {0x180e, 0x180e},      // Mongolian vowel separator
                                          {0x200b, 0x200f},      // zero width, direction marks
                                          {0x2028, 0x202e},      // line separators, embeddings, overrides
                                          {0x2060, 0x206f},      // joiners, isolates, deprecated formats
                                          {0x3164, 0x3164},      // Hangul filler
                                          {0xfeff, 0xfeff},      // byte order mark
                                          {0xfff9, 0xfffb},      // interlinear annotation
                                          {0xe0000, 0xe0fff}}};  // tags

bool is_hidden(char32_t value) {
  return std::any_of(k_hidden.begin(), k_hidden.end(),
                     [=](const Range& range) { return value >= range.first && value <= range.last; });
}

void append_byte(std::string& out, char byte) {
  constexpr std::string_view k_digits = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  out.append("\\x").append(1, k_digits[value >> 4]).append(1, k_digits[value & 15U]);
}

// The first code point of `text`, made safe, onto `out`; returns how many bytes it took.
std::size_t append_safe(std::string& out, std::string_view text) {
  const CodePoint point = decode_utf8(text);
  if (point.length == 0 || (point.length == 1 && is_hidden(point.value))) {
    append_byte(out, text.front());
    return 1;
  }
  if (is_hidden(point.value)) {
    std::array<char, 16> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\u{%04X}", static_cast<unsigned>(point.value));
    out += escaped.data();
  } else {
    out += text.substr(0, point.length);
  }
  return point.length;
}

}  // namespace

std::string escape_text(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const std::size_t before = out.size();
    std::size_t taken = 1;
    if (text.front() == '\\')
      out += "\\\\";
    else
      taken = append_safe(out, text);
    if (out.size() > limit) {
      out.resize(before);
      return out += "...";
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string terminal_safe(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) text.remove_prefix(append_safe(out, text));
  return out;
}

}  // namespace klock
