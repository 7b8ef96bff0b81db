// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"

#include <sys/types.h>

#include <string>
#include <string_view>

namespace klock {

// Files to which several processes append lines at once, each line with one write(2): they never mix, and
// whoever opens the file anew for each line may rename it away at any time. None of these blocks on a pipe
// whose reader is slow.

// Made with `mode` if there is none. Empty with errno: it can't be opened.
Fd open_for_lines(const std::string& path, mode_t mode);

// Adds the line's end. 0, or errno; a line that a full disk cut short is ended.
int append_line(const Fd& file, std::string_view line);

}  // namespace klock
