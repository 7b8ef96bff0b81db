// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>

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
  sigset_t before_;   // the thread's mask
  bool came_before_;  // from somebody else
};

}  // namespace klock
