// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace klock {

// `klock status` for people: per lock one line with its state, then indented lines for holders and waiters.
std::string status_text(const std::vector<LockState>& states, const std::string& store);

// The documented JSON array of `klock status --json` (klock-status(1), JSON), ending in a newline. Invalid
// UTF-8 is replaced.
std::string status_json(const std::vector<LockState>& states, const std::string& store);

// `klock once show --json`: likewise, one object.
std::string marker_json(const LockName& lock, const std::string& store, const std::string& once,
                        const std::optional<Marker>& marker);

// `klock list` for people: an aligned table NAME STATE HOLDER SINCE LEFT WAITERS, with a head line; "" when
// there is nothing.
std::string list_text(const std::vector<LockState>& states);

}  // namespace klock
