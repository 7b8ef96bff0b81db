// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace klock {

// For text that is safe for a terminal already (output/escape.hpp).

// The columns that it takes there: two for each wide East Asian character or emoji, none for a combining
// mark.
std::size_t display_width(std::string_view text);

// Exactly `width` columns: padded with blanks, or cut at the border of a character and ended with "..".
std::string fit_to_width(std::string_view text, std::size_t width);

}  // namespace klock
