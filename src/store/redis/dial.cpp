// SPDX-License-Identifier: MIT
#include "store/redis/dial.hpp"

#include "store/redis/lookup.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace klock::redis {
namespace {

struct Address {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un path;
    sockaddr_storage storage;
  };
  socklen_t size = 0;

  Address() : storage{} {}
};
using Addresses = std::vector<Address>;

bool add_numeric(Addresses& addresses, const char* host, std::uint16_t port) {
  Address address;
  if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    address.size = sizeof(address.v4);
  } else if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    address.size = sizeof(address.v6);
  } else {
    return false;
  }
  addresses.push_back(address);
  return true;
}

Io<Addresses> addresses_of(const RedisUrl& url, Instant deadline, Interrupt interrupt) {
  Addresses addresses;
  if (!url.socket_path.empty()) {
    Address address;
    if (url.socket_path.size() >= sizeof(address.path.sun_path))
      return fault(Cause::final, ErrorKind::config, "the socket's path is too long");
    address.path.sun_family = AF_UNIX;
    std::memcpy(address.path.sun_path, url.socket_path.c_str(), url.socket_path.size() + 1);
    address.size = sizeof(address.path);
    addresses.push_back(address);
    return addresses;
  }
  if (url.host == "localhost") {
    add_numeric(addresses, "127.0.0.1", url.port);
    add_numeric(addresses, "::1", url.port);
    return addresses;
  }
  if (add_numeric(addresses, url.host.c_str(), url.port)) return addresses;
  KLOCK_TRY(found, look_up(url.host, deadline, interrupt));
  for (const std::string& address : found) add_numeric(addresses, address.c_str(), url.port);
  if (addresses.empty())
    return fault(Cause::no_contact, ErrorKind::unreachable, "no usable address for " + url.host);
  return addresses;
}

tl::unexpected<Fault> connect_fault(int code) {
  const std::string what = std::string("cannot connect: ") + std::strerror(code);
  if (code == EACCES || code == EPERM) return fault(Cause::final, ErrorKind::refused, what);
  return fault(Cause::no_contact, ErrorKind::unreachable, what, "is the server running there?");
}

Io<Fd> finish_connect(Fd socket, Instant deadline, Interrupt interrupt) {
  switch (wait_ready(socket.get(), POLLOUT, deadline, interrupt)) {
    case Ready::interrupted:
      return interrupted_fault();
    case Ready::timeout:
      return fault(Cause::timeout, ErrorKind::unreachable, "cannot connect in time",
                   "is the server running there, and no firewall between?");
    case Ready::descriptor:
      break;
  }
  int code = 0;
  socklen_t size = sizeof(code);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) return connect_fault(code);
  return socket;
}

Io<Fd> connect_to(const Address& address, Instant deadline, Interrupt interrupt) {
  Fd socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket && errno == EAFNOSUPPORT) return connect_fault(errno);  // a host without IPv6
  if (!socket) return fault(Cause::final, ErrorKind::system, std::string("socket: ") + std::strerror(errno));
  const int on = 1;
  if (address.any.sa_family != AF_UNIX) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  for (;;) {
    if (connect(socket.get(), &address.any, address.size) == 0) return socket;
    if (errno == EINPROGRESS || errno == EINTR) return finish_connect(std::move(socket), deadline, interrupt);
    if (errno != EAGAIN || address.any.sa_family != AF_UNIX) return connect_fault(errno);
    // A Unix socket whose queue is full cannot be polled for room.
    if (BootClock::now() >= deadline) return timeout_fault();
    const auto pause = std::min(deadline, BootClock::now() + std::chrono::milliseconds(5));
    if (wait_ready(-1, 0, pause, interrupt) == Ready::interrupted) return interrupted_fault();
  }
}

// A silent address must leave time for the ones after it.
Instant share_of(Instant deadline, std::size_t addresses_left) {
  if (deadline == k_never) return deadline;
  const Instant now = BootClock::now();
  return now + (deadline - now) / static_cast<Duration::rep>(addresses_left);
}

}  // namespace

Io<Fd> dial(const RedisUrl& url, Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(addresses, addresses_of(url, deadline, interrupt));
  Io<Fd> socket = timeout_fault();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    auto one = connect_to(addresses[i], share_of(deadline, addresses.size() - i), interrupt);
    if (one || one.error().cause == Cause::interrupted) return one;
    // Where one may answer later, that another one never will is no news.
    if (i == 0 || may_pass(one.error().error.kind) || !may_pass(socket.error().error.kind))
      socket = std::move(one);
  }
  return socket;
}

}  // namespace klock::redis
