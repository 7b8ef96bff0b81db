// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <vector>

namespace klock {

// The candidate that `word` is most likely a misspelling of (at most two letters added, dropped or changed,
// and fewer than half of them); empty: none is close.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace klock
