// SPDX-License-Identifier: MIT
#pragma once

#include "commands/commands.hpp"
#include "config/settings.hpp"
#include "lease/claim.hpp"
#include "supervise/job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace klock {

// What a run is going to do, settled before anything is touched.
struct Plan {
  // What could not be found or is not executable.
  struct Missing {
    std::string program;
    int error;  // errno
  };

  std::vector<Claim> claims;       // NAME's first, then those of --also
  JobOptions job;                  // without what only the process itself knows: signals, last will
  std::optional<Missing> missing;  // then nothing is to be acquired

  const Token& token() const { return claims.front().token; }
};

// Errors: usage and config; system (no random numbers).
Result<Plan> make_plan(const RunRequest& request, const Settings& settings);

}  // namespace klock
