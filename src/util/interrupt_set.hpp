// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"
#include "util/interrupt.hpp"
#include "util/result.hpp"

namespace klock {

// Several descriptors as one interrupt, which is raised as long as any of them is readable. It owns none of
// them.
class InterruptSet {
 public:
  // Errors: system.
  Status add(int fd);

  // Valid as long as the set, once something was added.
  Interrupt interrupt() const { return Interrupt{epoll_.get()}; }

 private:
  Fd epoll_;
};

}  // namespace klock
