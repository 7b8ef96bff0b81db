// SPDX-License-Identifier: MIT
#include "commands/return_watch.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace klock {
namespace {

constexpr Duration k_first_pause = std::chrono::seconds(1);
constexpr Duration k_longest_pause = std::chrono::seconds(10);

}  // namespace

std::unique_ptr<ReturnWatch> ReturnWatch::start(Look look) {
  Fd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return nullptr;
  std::unique_ptr<ReturnWatch> watch(new ReturnWatch(std::move(stop), std::move(look)));
  try {
    watch->thread_ = std::thread([&self = *watch] { self.run(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  return watch;
}

ReturnWatch::~ReturnWatch() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void ReturnWatch::run() const {
  const Interrupt stopped{stop_.get()};
  for (Duration pause = k_first_pause;; pause = std::min(2 * pause, k_longest_pause)) {
    if (wait_ready(-1, 0, BootClock::now() + pause, stopped) == Ready::interrupted) return;
    if (look_(stopped)) return;
  }
}

}  // namespace klock
