// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

namespace klock {

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;  // bytes; 0: the text does not start with a valid sequence
};

// The first code point of `text` (not empty). Overlong forms, surrogates and values above U+10FFFF are
// invalid.
CodePoint decode_utf8(std::string_view text);

}  // namespace klock
