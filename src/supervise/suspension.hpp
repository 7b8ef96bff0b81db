// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"
#include "util/result.hpp"

namespace klock {

// SIGTSTP (Ctrl-Z) as a descriptor, for a process that has a terminal to give back before it stops. Blocked
// until this object is gone; an ignored one stays ignored. For main only.
class Suspension {
 public:
  // Errors: system.
  static Result<Suspension> open();
  Suspension(Suspension&&) = default;
  Suspension& operator=(Suspension&&) = default;
  ~Suspension();

  // Readable when we are to stop; -1 if never.
  int fd() const { return fd_.get(); }
  // Whether we are to stop; true once for each time. Does not block.
  bool take();
  // Stops, and returns when we are continued, or at once where nobody could continue us (see suspend_like).
  void stop();

 private:
  Suspension() = default;

  Fd fd_;
};

}  // namespace klock
