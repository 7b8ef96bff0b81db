// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/redis/route.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace klock::redis {

// How the server answered to some requests in a row.
struct Contact {
  std::vector<Duration> round_trips;
  // The server's wall clock less this host's, as the fastest answer tells, and how wrong that may be: half
  // its round trip. nullopt: this user may not ask.
  struct Clock {
    Duration ahead{};
    Duration doubt{};
  };
  std::optional<Clock> clock;
};

// Pure.
Finding judge_round_trips(std::vector<Duration> samples, Duration ttl);
Finding judge_clock(const std::optional<Contact::Clock>& clock);

// Of several servers what is to be said of each subject: that all is well, of the first one; of what is not
// well all. Pure.
struct ServerFindings {
  std::string server;  // "host:port"
  std::vector<Finding> findings;
};
std::vector<Finding> merge_findings(const std::vector<ServerFindings>& servers);

// LockStore::examine.
Io<std::vector<Finding>> examine(const Site& site, const std::string& prefix, Duration ttl, Instant deadline,
                                 Interrupt interrupt);

}  // namespace klock::redis
