// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace klock {

// What a run reports in --outcome-file: JSON with name, acquired, outcome, exit_status, command ({"exit": N}
// or
// {"signal": "TERM"} or null), waited_ms, held_ms, fence, degraded, reason.
struct RunReport {
  std::string name;
  bool acquired = false;
  std::string outcome =
      "error";  // completed, busy, skipped, lost, forced, max_hold, unavailable, refused, interrupted, error
  int exit_status = 0;
  std::optional<int> command_exit;
  std::string command_signal;  // "TERM"
  std::int64_t waited_ms = 0;
  std::int64_t held_ms = 0;
  std::uint64_t fence = 0;
  std::string degraded;  // the store was out of reach: "local", under this host's lock; "run", without a lock
  std::string reason;
};

// Replaces `path` with the report in one step (temporary file beside it, then rename; a path that is no
// regular file, such as /dev/stderr, is written to directly). Errors: system.
Status write_outcome(const std::string& path, const RunReport& report);

}  // namespace klock
