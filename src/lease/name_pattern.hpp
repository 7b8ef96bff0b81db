// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace klock {

// Whether `name` matches the shell pattern (fnmatch(3); empty: any name).
bool matches(const std::string& name, const std::string& pattern);

}  // namespace klock
