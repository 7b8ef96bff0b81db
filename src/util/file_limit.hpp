// SPDX-License-Identifier: MIT
#pragma once

#include "util/signal_set.hpp"

namespace klock {

// While one of these lives, this thread's own writes beyond RLIMIT_FSIZE fail with EFBIG and raise no
// SIGXFSZ: that would be taken for a signal to be passed on to the command.
class NoFileLimitSignal {
 public:
  NoFileLimitSignal();
  ~NoFileLimitSignal();
  NoFileLimitSignal(const NoFileLimitSignal&) = delete;
  NoFileLimitSignal& operator=(const NoFileLimitSignal&) = delete;

 private:
  const bool came_before_;  // from somebody else
  const Blocked blocked_;   // until we are through
};

}  // namespace klock
