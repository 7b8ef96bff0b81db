// SPDX-License-Identifier: MIT
#pragma once

#include "supervise/guard_page.hpp"

#include <string>
#include <vector>

namespace klock {

struct Program {
  const std::vector<std::string>& argv;
  const std::string& path;
  bool reads_nothing = false;  // its stdin is /dev/null
};

// Runs `program` as a child of the calling process, in process group `group` (0: one of its own), with what
// `page` has in `environment` added to ours. Returns 0 or the errno of fork or exec; the pid is in
// page.command (0 after a failure). Like execvp(3), a file that is not of any known format is given to
// /bin/sh. Blocks until the exec is done. Preconditions: single-threaded, all signals blocked, all
// descriptors of ours close-on-exec.
int spawn_command(const Program& program, const JobOptions& options, pid_t group, GuardPage& page);

}  // namespace klock
