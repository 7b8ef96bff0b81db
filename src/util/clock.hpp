// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

struct itimerspec;
struct timespec;

namespace klock {

using Duration = std::chrono::nanoseconds;

// CLOCK_BOOTTIME: monotonic, and it goes on while the machine is suspended. The only clock for leases,
// deadlines and waiting; the wall clock is for people's eyes alone.
struct BootClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};

using Instant = BootClock::time_point;
inline constexpr Instant k_never = Instant::max();

// Wall clock, milliseconds since 1970: only to tell people when something happened.
std::int64_t wall_ms();
std::int64_t wall_us();  // microseconds

// What is left until `when` for poll(2): rounded up to whole milliseconds, 0 when past, -1 for k_never.
int poll_timeout(Instant when);

// Arms timerfd `fd` (made with CLOCK_BOOTTIME) for the absolute time `when`; k_never disarms it.
void arm_timer(int fd, Instant when);

}  // namespace klock
