// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "output/watch_view.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace klock {

// What is known of the store at a moment.
struct WatchPicture {
  std::vector<LockState> states;    // sorted by name
  std::string store;                // LockStore::describe()
  std::int64_t wall_ms = 0;         // when it was taken
  std::int64_t failed_wall_ms = 0;  // since when the store cannot be reached; 0: it can
  std::string failure;              // why
};

struct FrameLine {
  std::string text;     // safe for a terminal, at most as wide as the frame
  bool strong = false;  // to stand out
};

struct WatchFrame {
  std::vector<FrameLine> lines;
  std::size_t top = 0;  // WatchView::top, within what there is
  WatchReach reach;
};

// What `klock watch` shows, exactly `height` lines of `width` columns at most; any size will do. Formats only
// what is seen. What does not fit is left out, the least important columns first.
WatchFrame watch_frame(const WatchPicture& picture, const WatchView& view, std::size_t width,
                       std::size_t height);

// `klock watch --once`: all rows, without a line about the keys; each line ends in a newline.
std::string watch_text(const WatchPicture& picture, const WatchView& view, std::size_t width);

}  // namespace klock
