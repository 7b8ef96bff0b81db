// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

namespace klock {

// For people, two units at most: "340ms", "12s", "1m05s", "1h02m", "3d04h". Negative counts as 0.
std::string human_duration(std::chrono::milliseconds value);

}  // namespace klock
