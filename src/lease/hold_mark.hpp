// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"

#include <sys/types.h>

#include <string_view>

namespace klock {

// By this a process that keeps a hold outside of any command shows which: an empty memory file whose name has
// the hold's id, seen in /proc/PID/fd. The hold is marked until the descriptor is closed; not open: errno
// says why.
Fd mark_hold(std::string_view id);

// Whether `pid` has such a mark. What can't be looked into has none.
bool marks_hold(pid_t pid, std::string_view id);

}  // namespace klock
