// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace klock::redlock {

// Of one server's findings: what "restart" and "persistence" mean where it is one of several that decide by
// majority. One that comes back without its votes may give them to somebody else while the lease still runs:
// it has to stay away for one lease first ("delayed restarts" in the description of the Redlock algorithm),
// or to lose nothing (appendfsync always). Pure.
std::vector<Finding> explain_restart(std::vector<Finding> findings);

// How many of the servers answer. `missing`: "host:port: why" of those that don't; fewer than a majority.
// Pure.
Finding judge_majority(std::size_t servers, const std::vector<std::string>& missing);

}  // namespace klock::redlock
