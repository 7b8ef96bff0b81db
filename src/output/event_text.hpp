// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"

#include <string>

namespace klock {

// One line for people, safe for a terminal: local time, what happened, the lock, to whom, and the details.
std::string event_text(const Event& event);

// event_json() as a line that is safe for a terminal too: ASCII, other characters as \uNNNN.
std::string event_json_line(const Event& event);

}  // namespace klock
