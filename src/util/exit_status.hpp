// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

namespace klock {

// The table of EXIT STATUS in klock(1).
enum ExitStatus : int {
  k_exit_ok = 0,
  k_exit_no = 1,       // the plain "no" of status, release and the like
  k_exit_warning = 1,  // doctor
  k_exit_danger = 2,   // doctor
  k_exit_usage = 64,
  k_exit_unavailable = 69,
  k_exit_internal = 70,
  k_exit_system = 71,
  k_exit_busy = 75,
  k_exit_refused = 77,
  k_exit_config = 78,
  k_exit_lost = 79,
  k_exit_max_hold = 124,
  k_exit_cannot_execute = 126,
  k_exit_not_found = 127,
  k_exit_signal = 128  // + the signal's number
};

constexpr int exit_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return k_exit_usage;
    case ErrorKind::config:
      return k_exit_config;
    case ErrorKind::unreachable:
    case ErrorKind::not_ready:
    case ErrorKind::unsafe:
    case ErrorKind::protocol:
      return k_exit_unavailable;
    case ErrorKind::refused:
      return k_exit_refused;
    case ErrorKind::forced:
      return k_exit_lost;
    case ErrorKind::system:
      return k_exit_system;
    case ErrorKind::internal:
      return k_exit_internal;
  }
  return k_exit_internal;
}

}  // namespace klock
