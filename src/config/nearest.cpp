// SPDX-License-Identifier: MIT
#include "config/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace klock {
namespace {

// Levenshtein distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t k_most = 2;
  std::string_view best;
  std::size_t best_distance = k_most + 1;
  for (const std::string_view candidate : candidates) {
    if (word.size() > candidate.size() + k_most) continue;  // also keeps a huge word cheap
    const std::size_t found = distance(word, candidate);
    if (found < best_distance && found * 2 < candidate.size()) {
      best = candidate;
      best_distance = found;
    }
  }
  return best;
}

}  // namespace klock
