// SPDX-License-Identifier: MIT
#include "lease/name_pattern.hpp"

#include <fnmatch.h>

namespace klock {

bool matches(const std::string& name, const std::string& pattern) {
  return pattern.empty() || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace klock
