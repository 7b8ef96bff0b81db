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

inline sigset_t all_signals() {
  sigset_t set;
  sigfillset(&set);
  return set;
}

// While one of these lives the signals of `set` are blocked in this thread, and for good in the threads that
// it starts.
class Blocked {
 public:
  explicit Blocked(const sigset_t& set) { pthread_sigmask(SIG_BLOCK, &set, &before_); }
  ~Blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace klock
