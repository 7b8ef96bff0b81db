// SPDX-License-Identifier: MIT
#include "util/interrupt_set.hpp"

#include <sys/epoll.h>

#include <cerrno>

namespace klock {

Status InterruptSet::add(int fd) {
  if (!epoll_) epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return system_failure("cannot wait for several things at once", errno);
  return {};
}

}  // namespace klock
