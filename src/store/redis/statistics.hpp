// SPDX-License-Identifier: MIT
#pragma once

#include "lease/statistics.hpp"
#include "store/redis/client.hpp"

#include <string>
#include <vector>

namespace klock::redis {

// Reads what the scripts count (count() in scripts/common.lua). See LockStore::statistics().
Io<std::vector<GroupStatistics>> read_statistics(Client& client, const std::string& prefix, Instant deadline,
                                                 Interrupt interrupt);

// From the hash of one group, as HGETALL gives it.
GroupStatistics parse_statistics(const Reply& hash);

}  // namespace klock::redis
