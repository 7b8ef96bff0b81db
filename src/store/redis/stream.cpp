// SPDX-License-Identifier: MIT
#include "store/redis/stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace klock::redis {
namespace {

Io<void> await(const Fd& socket, short events, Instant deadline, Interrupt interrupt) {
  switch (wait_ready(socket.get(), events, deadline, interrupt)) {
    case Ready::interrupted:
      return interrupted_fault();
    case Ready::timeout:
      return timeout_fault();
    case Ready::descriptor:
      break;
  }
  return {};
}

}  // namespace

Io<void> SocketStream::write(std::string_view bytes, Instant deadline, Interrupt interrupt) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return {};
    if (errno != EAGAIN && errno != ENOBUFS) return closed_fault();
    KLOCK_CHECK(await(socket_, POLLOUT, deadline, interrupt));
  }
  return {};
}

Io<std::size_t> SocketStream::read(std::span<char> buffer, Instant deadline, Interrupt interrupt) {
  for (;;) {
    KLOCK_CHECK(await(socket_, POLLIN, deadline, interrupt));
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size > 0) return static_cast<std::size_t>(size);
    if (size == 0 || (errno != EINTR && errno != EAGAIN)) return closed_fault();
  }
}

}  // namespace klock::redis
