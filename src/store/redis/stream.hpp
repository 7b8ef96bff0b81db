// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/protocol.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace klock::redis {

// The bytes to and from one server. Every call returns by its deadline and at once when interrupted; after a
// fault other than a timeout or an interrupt of read() nothing more can be said. One thread at a time. It
// ends without a word to the server: another process, forked from this one, may go on with it.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // All of `bytes`. That the server has hung up is no fault here: it may have said why, and the next read()
  // tells. Faults: interrupted, timeout, closed.
  virtual Io<void> write(std::string_view bytes, Instant deadline, Interrupt interrupt) = 0;

  // What has come, at least one byte; returns how many. Faults: interrupted, timeout, closed; with TLS also
  // tls (what open_tls() tells may come as late as here).
  virtual Io<std::size_t> read(std::span<char> buffer, Instant deadline, Interrupt interrupt) = 0;
};

// As it is, over a connected non-blocking socket.
class SocketStream final : public Stream {
 public:
  explicit SocketStream(Fd socket) : socket_(std::move(socket)) {}
  Io<void> write(std::string_view bytes, Instant deadline, Interrupt interrupt) override;
  Io<std::size_t> read(std::span<char> buffer, Instant deadline, Interrupt interrupt) override;

 private:
  const Fd socket_;
};

}  // namespace klock::redis
