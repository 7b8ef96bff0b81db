// SPDX-License-Identifier: MIT
#include "util/interrupt.hpp"

#include <poll.h>

#include <array>

namespace klock {

Ready wait_ready(int fd, short events, Instant deadline, Interrupt interrupt) {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{fd, events, 0}, pollfd{interrupt.fd, POLLIN, 0}};
    // poll(2) does not count time in suspend; whoever must notice a suspension compares BootClock afterwards.
    const int ready = poll(fds.data(), fds.size(), poll_timeout(deadline));
    if (ready > 0) {
      if (fds[1].revents != 0) return Ready::interrupted;
      return Ready::descriptor;
    }
    if (deadline != k_never && BootClock::now() >= deadline) return Ready::timeout;
  }
}

}  // namespace klock
