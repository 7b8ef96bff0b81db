// SPDX-License-Identifier: MIT
#include "util/file_limit.hpp"

#include <cerrno>
#include <ctime>

namespace klock {
namespace {

bool is_pending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

NoFileLimitSignal::NoFileLimitSignal() : came_before_(is_pending()), blocked_(only(SIGXFSZ)) {}

// The kernel sends it to the thread that writes.
NoFileLimitSignal::~NoFileLimitSignal() {
  const int error = errno;
  const sigset_t set = only(SIGXFSZ);
  const timespec at_once{};
  if (!came_before_ && is_pending()) sigtimedwait(&set, nullptr, &at_once);
  errno = error;  // what follows leaves it alone
}

}  // namespace klock
