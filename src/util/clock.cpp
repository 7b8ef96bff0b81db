// SPDX-License-Identifier: MIT
#include "util/clock.hpp"

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <limits>

namespace klock {

BootClock::time_point BootClock::now() noexcept {
  timespec ts{};
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return time_point(std::chrono::seconds(ts.tv_sec) + Duration(ts.tv_nsec));
}

std::int64_t wall_ms() {
  return wall_us() / 1000;
}

std::int64_t wall_us() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return std::int64_t{ts.tv_sec} * 1'000'000 + ts.tv_nsec / 1000;
}

int poll_timeout(Instant when) {
  if (when == k_never) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - BootClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

void arm_timer(int fd, Instant when) {
  itimerspec spec{};
  if (when != k_never) {
    // An all-zero value would disarm the timer: a time in the past must fire at once instead.
    const auto at = std::max(when.time_since_epoch(), Duration(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
    spec.it_value.tv_sec = static_cast<time_t>(seconds.count());
    spec.it_value.tv_nsec = static_cast<long>((at - seconds).count());
  }
  timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace klock
