// SPDX-License-Identifier: MIT
#pragma once

#include "supervise/job.hpp"

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace klock {

// The memory that main and guard share: what must be known without a message, because the other one may be
// frozen or dead.
struct GuardPage {
  std::atomic<std::int64_t> deadline_ns{INT64_MAX};         // Instant of the lease's end
  std::atomic<StopCause> stop{StopCause::none};             // main's wish; the first one stands
  std::atomic<std::int64_t> most_kill_after_ns{INT64_MAX};  // written before the start
  std::atomic<pid_t> command{0};                   // written by the command's process itself before its exec
  std::atomic<bool> in_group{false};               // likewise, once it is in its process group
  std::atomic<int> exec_error{0};                  // likewise, if the exec fails
  std::atomic<std::uint32_t> environment_size{0};  // used bytes of `environment`
  std::array<char, 32 * 1024> environment;         // NAME=VALUE\0...; memory only as far as it is used

  Duration kill_after(const JobOptions& options) const {
    return std::min(options.kill_after, Duration(most_kill_after_ns.load(std::memory_order_relaxed)));
  }
  Instant deadline() const { return Instant(Duration(deadline_ns.load(std::memory_order_relaxed))); }
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<StopCause>::is_always_lock_free);

// One datagram each; the end of the line means that the other side is dead.
enum class OrderKind : std::int32_t { start, forward, look };  // look: something on the page has changed
struct Order {
  OrderKind kind{};
  std::int32_t value = 0;  // start: the group to join, 0 for one of its own; forward: the signal
  std::int32_t holds = 0;  // start: how many descriptors come with it
};

enum class ReportKind : std::int32_t { started, not_started, too_late, suspended, ended };
struct Report {
  ReportKind kind{};
  std::int32_t value = 0;    // the pid; the errno; the signal; the wait status
  std::int32_t stopped = 0;  // ended: a StopCause
};

// SIGKILL comes this long before the deadline: room for a late wake-up on a busy machine and for the kernel
// to take the group apart. It is part of the grace between the stop signal and SIGKILL where that allows it.
inline constexpr Duration k_least_margin = std::chrono::milliseconds(20);
inline constexpr Duration k_most_margin = std::chrono::milliseconds(100);
inline Duration kill_margin(Duration kill_after) {
  return std::clamp(kill_after / 5, k_least_margin, k_most_margin);
}

}  // namespace klock
