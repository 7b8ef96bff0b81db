// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace klock {

// One event as one line of JSON, without the line's end: time (UTC, milliseconds), event, name, key, store
// (if given), mode, slots, id, fence, user, host, pid, program, command, message, waited_ms, held_ms,
// late_ms, by, reason. What is unknown is left out.
std::string event_json(const Event& event, std::string_view store = {});

// nullopt: no JSON object, or no event that we know. What has another shape than it should is left out.
std::optional<Event> parse_event(std::string_view line);

}  // namespace klock
