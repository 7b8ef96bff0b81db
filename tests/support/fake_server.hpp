// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace klock::test {

// A server that behaves as badly as a test wants: each accepted connection, one after the other, is given to
// `serve` in a thread of its own kind; it is closed when `serve` returns.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int fd)> serve);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void run();

  const std::function<void(int fd)> serve_;
  Fd listener_;
  Fd stop_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

// For `serve`: waits for something to read and returns it, "" at the end of the stream.
std::string receive_some(int fd);
void send_text(int fd, const std::string& text);

}  // namespace klock::test
