// SPDX-License-Identifier: MIT
#pragma once

#include "util/clock.hpp"

namespace klock {

// A descriptor that becomes readable when a blocking call should give up: a signalfd, or a thread's eventfd.
// Passed by value; it owns nothing. The default never interrupts.
struct Interrupt {
  int fd = -1;
};

enum class Ready { descriptor, interrupted, timeout };

// Blocks until `fd` has one of `events` (poll(2); errors and hang-ups count), the interrupt is raised, or
// `deadline` has passed, whichever is first. An interrupt wins over a ready descriptor. EINTR is retried.
// fd -1: only the interrupt and the deadline.
Ready wait_ready(int fd, short events, Instant deadline, Interrupt interrupt);

}  // namespace klock
