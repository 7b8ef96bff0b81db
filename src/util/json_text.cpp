// SPDX-License-Identifier: MIT
#include "util/json_text.hpp"

#include <algorithm>
#include <utility>

namespace klock {
namespace {

// The length of the well-formed UTF-8 character at the start of `text` (Unicode, table 3-7); 0: ill-formed.
std::size_t character_length(std::string_view text) {
  const auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0) return 0;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xBF) return 0;
  return length;
}

// How many characters at the start stand for themselves and are one byte long.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const auto byte = static_cast<unsigned char>(text[length]);
    if (byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\') break;
    ++length;
  }
  return length;
}

std::string escape_control(unsigned char byte) {
  static constexpr char k_digits[] = "0123456789abcdef";
  return std::string("\\u00") + k_digits[byte >> 4] + k_digits[byte & 15];
}

}  // namespace

void JsonText::start(std::string_view member) {
  if (text_.size() > 1) text_ += ',';
  text_ += '"';
  text_ += member;
  text_ += "\":";
}

void JsonText::add(std::string_view member, std::string_view value, std::size_t limit) {
  start(member);
  text_ += '"';
  const std::size_t end = text_.size() + limit;
  while (!value.empty()) {
    const std::size_t plain = plain_length(value);
    text_ += value.substr(0, std::min(plain, end - text_.size()));
    value.remove_prefix(plain);
    if (value.empty()) break;
    const std::size_t length = character_length(value);
    std::string piece(value.substr(0, length));
    const auto byte = static_cast<unsigned char>(value.front());
    if (length == 0)
      piece = "\xEF\xBF\xBD";
    else if (byte < 0x20)
      piece = escape_control(byte);
    else if (byte == '"' || byte == '\\')
      piece.insert(0, 1, '\\');
    if (text_.size() + piece.size() > end) break;
    text_ += piece;
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

void JsonText::add(std::string_view member, std::int64_t value) {
  start(member);
  text_ += std::to_string(value);
}

void JsonText::add_unsigned(std::string_view member, std::uint64_t value) {
  start(member);
  text_ += std::to_string(value);
}

void JsonText::add_flag(std::string_view member, bool value) {
  start(member);
  text_ += value ? "true" : "false";
}

std::string JsonText::take() {
  text_ += '}';
  return std::exchange(text_, "{");
}

}  // namespace klock
