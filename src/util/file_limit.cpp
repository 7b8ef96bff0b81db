// SPDX-License-Identifier: MIT
#include "util/file_limit.hpp"

#include "util/signal_set.hpp"

#include <cerrno>
#include <ctime>

namespace klock {
namespace {

bool is_pending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

NoFileLimitSignal::NoFileLimitSignal() : before_{}, came_before_(is_pending()) {
  const sigset_t set = only(SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

// The kernel sends it to the thread that writes.
NoFileLimitSignal::~NoFileLimitSignal() {
  const int error = errno;
  const sigset_t set = only(SIGXFSZ);
  const timespec at_once{};
  if (!came_before_ && is_pending()) sigtimedwait(&set, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace klock
