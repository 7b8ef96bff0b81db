// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace klock {

// A chart of who waited for each lock and who held it when: a line for each claim, with time running from
// left to right, from `from_ms` (0: the first event) to `to_ms`, in lines of at most `width` columns (at
// least 40). `events`: oldest first. A hold whose end nobody has told ends where the next exclusive one
// begins.
std::string timeline_text(const std::vector<Event>& events, std::int64_t from_ms, std::int64_t to_ms,
                          std::size_t width);

}  // namespace klock
