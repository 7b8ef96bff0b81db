// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace klock {

// Writes one flat JSON object member by member. An uncontended start needs no more of JSON than this.
class JsonText {
 public:
  // `limit` bounds the bytes that the escaped value takes; the rest is cut off between characters.
  // Invalid UTF-8 becomes U+FFFD.
  void add(std::string_view member, std::string_view value, std::size_t limit);
  void add(std::string_view member, std::int64_t value);
  void add_unsigned(std::string_view member, std::uint64_t value);
  void add_flag(std::string_view member, bool value);

  std::size_t size() const { return text_.size(); }
  std::string take();

 private:
  void start(std::string_view member);

  std::string text_ = "{";
};

}  // namespace klock
