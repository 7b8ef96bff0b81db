// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"
#include "util/interrupt.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace klock {

// Looks from a thread of its own whether something is back: after a second, then more and more rarely, until
// it is. Signals must be blocked before.
class ReturnWatch {
 public:
  // True: it is back, and that has been dealt with. Called from the thread; returns at once when the
  // interrupt is raised.
  using Look = std::function<bool(Interrupt interrupt)>;

  // nullptr: there is no descriptor or thread to be had.
  static std::unique_ptr<ReturnWatch> start(Look look);

  // Waits for the thread, which ends at once.
  ~ReturnWatch();
  ReturnWatch(const ReturnWatch&) = delete;
  ReturnWatch& operator=(const ReturnWatch&) = delete;

 private:
  ReturnWatch(Fd stop, Look look) : stop_(std::move(stop)), look_(std::move(look)) {}
  void run() const;

  const Fd stop_;
  const Look look_;
  std::thread thread_;
};

}  // namespace klock
