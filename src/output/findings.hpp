// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"

#include <string>
#include <vector>

namespace klock {

// `klock doctor` for people: a line for each, in columns, with what a server wrote escaped.
std::string findings_text(const std::vector<Finding>& findings);

// The documented JSON array of `klock doctor --json` (klock-doctor(1), JSON), ending in a newline. Invalid
// UTF-8 is replaced.
std::string findings_json(const std::vector<Finding>& findings);

}  // namespace klock
