// SPDX-License-Identifier: MIT
#include "output/display_width.hpp"

#include "output/utf8.hpp"

#include <algorithm>
#include <array>

namespace klock {
namespace {

constexpr std::string_view k_cut = "..";

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array<Range, 15> k_wide{{{0x1100, 0x115f},    // Hangul Jamo
                                        {0x231a, 0x231b},    // watch, hourglass
                                        {0x2e80, 0x303e},    // CJK radicals, punctuation
                                        {0x3041, 0x33ff},    // kana, Bopomofo, compatibility
                                        {0x3400, 0x4dbf},    // CJK extension A
                                        {0x4e00, 0x9fff},    // CJK
                                        {0xa000, 0xa4cf},    // Yi
                                        {0xac00, 0xd7a3},    // Hangul
                                        {0xf900, 0xfaff},    // CJK compatibility
                                        {0xfe30, 0xfe6f},    // vertical and small forms
                                        {0xff00, 0xff60},    // full width
                                        {0xffe0, 0xffe6},    // full width signs
                                        {0x1f300, 0x1f64f},  // pictographs
                                        {0x1f680, 0x1f9ff},  // transport, supplemental pictographs
                                        {0x20000, 0x3fffd}}};

constexpr std::array<Range, 7> k_combining{{{0x300, 0x36f},
                                            {0x483, 0x489},
                                            {0x591, 0x5bd},
                                            {0x1ab0, 0x1aff},
                                            {0x1dc0, 0x1dff},
                                            {0x20d0, 0x20ff},
                                            {0xfe00, 0xfe0f}}};  // variation selectors

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t value) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [=](const Range& range) { return value >= range.first && value <= range.last; });
}

std::size_t width_of(char32_t value) {
  if (value < 0x300) return 1;
  if (is_in(k_combining, value)) return 0;
  return is_in(k_wide, value) ? 2 : 1;
}

// How many bytes of `text` fit into `width` columns, and how many columns those take.
struct Extent {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

Extent extent_of(std::string_view text, std::size_t width) {
  Extent extent;
  while (extent.bytes < text.size()) {
    const CodePoint point = decode_utf8(text.substr(extent.bytes));
    const std::size_t columns = width_of(point.value);
    if (extent.columns + columns > width) break;
    extent.bytes += std::max<std::size_t>(point.length, 1);
    extent.columns += columns;
  }
  return extent;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return extent_of(text, std::string_view::npos).columns;
}

std::string fit_to_width(std::string_view text, std::size_t width) {
  Extent extent = extent_of(text, width);
  std::string_view end;
  if (extent.bytes < text.size() && width > k_cut.size()) {
    extent = extent_of(text, width - k_cut.size());
    end = k_cut;
  }
  std::string fitted(text.substr(0, extent.bytes));
  fitted.append(end).append(width - extent.columns - end.size(), ' ');
  return fitted;
}

}  // namespace klock
