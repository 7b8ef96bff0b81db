// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>

namespace klock {

// The set of this signal alone.
inline sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

}  // namespace klock
