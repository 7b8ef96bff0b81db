// SPDX-License-Identifier: MIT
#pragma once

#include "lease/statistics.hpp"

#include <string>
#include <vector>

namespace klock {

// For people: for each group what was counted, times with a small chart, and advice. Safe for a terminal.
std::string statistics_text(const std::vector<GroupStatistics>& groups);

// An array of objects.
std::string statistics_json(const std::vector<GroupStatistics>& groups);

// The text exposition format, version 0.0.4, as node_exporter's textfile collector reads it. Source:
// Prometheus documentation, "Exposition formats". `store`: a label.
std::string statistics_prometheus(const std::vector<GroupStatistics>& groups, const std::string& store);

}  // namespace klock
