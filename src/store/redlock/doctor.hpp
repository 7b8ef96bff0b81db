// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/redis/doctor.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace klock::redlock {

// Of one server's findings: what "restart" and "persistence" mean where it is one of several that decide by
// majority. One that comes back without its votes may give them to somebody else while the lease still runs:
// it has to stay away for one lease first ("delayed restarts" in the description of the Redlock algorithm),
// or to lose nothing (appendfsync always). Pure.
std::vector<Finding> explain_restart(std::vector<Finding> findings);

// What each server's "scripts" mean here, where votes are scripts alone: with those that answer and let this
// user run them there may be no majority. `configured`: how many servers there are. Pure.
void explain_scripts(std::vector<redis::ServerFindings>& servers, std::size_t configured);

// Servers that are named more than once, under several names, and so have several votes. Pure.
std::vector<Finding> judge_names(const std::vector<redis::ServerFindings>& servers);

// How many of the servers answer. `missing`: "host:port: why" of those that don't; fewer than a majority.
// Pure.
Finding judge_majority(std::size_t servers, const std::vector<std::string>& missing);

}  // namespace klock::redlock
