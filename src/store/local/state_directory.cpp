// SPDX-License-Identifier: MIT
#include "store/local/state_directory.hpp"

#include <unistd.h>

#include <cstdlib>

namespace klock {

std::string state_directory() {
  if (geteuid() == 0) return "/var/lib/klock";
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + "/klock";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.local/state/klock";
  return {};
}

}  // namespace klock
