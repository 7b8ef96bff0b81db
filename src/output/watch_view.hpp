// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "output/keys.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace klock {

enum class WatchSort {
  name,
  age,     // the longest held first
  left,    // the least time left first
  waiters  // the most waiters first
};

// Which locks `klock watch` shows, and from where on.
struct WatchView {
  WatchSort sort = WatchSort::name;
  bool reversed = false;
  std::string filter;   // only locks with this in their name, or in what is shown of a holder
  bool typing = false;  // the filter is being typed
  std::size_t top = 0;  // the row that is shown first
};

// One line of the table: a holder of a lock, or a lock that has none.
struct WatchRow {
  const LockState* state = nullptr;
  const Holder* holder = nullptr;
};

// The rows of `states`, which are sorted by name and must outlive them; the holders of one lock follow each
// other. Nothing is formatted: cheap also for very many.
std::vector<WatchRow> watch_rows(const std::vector<LockState>& states, const WatchView& view);

// How far one can scroll, as of the last frame.
struct WatchReach {
  std::size_t page = 0;  // rows that are shown at once
  std::size_t last = 0;  // the largest `top` that makes sense
};

// What a key does to the view. False: the key asks to leave.
bool press(WatchView& view, const KeyPress& key, const WatchReach& reach);

}  // namespace klock
