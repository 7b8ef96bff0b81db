// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"
#include "lease/lock_state.hpp"
#include "lease/statistics.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace klock::redlock {

// What several servers tell, as one. `answers`: of each server, nullopt where it did not answer; a majority
// has. All pure but for what EventMerger remembers.

// A hold is shown if a majority has it, or may have it as far as the silent ones can tell. If there is none,
// but so many have something that nobody could get a majority, all that there is. Of times those are told
// that a majority reaches, of fences the greatest.
LockState merge_states(const LockName& lock, const std::vector<std::optional<LockState>>& answers);

// The same of all locks that any server names, sorted by name.
std::vector<LockState> merge_lists(const std::vector<std::optional<std::vector<LockState>>>& answers);

// Each server writes its own log, so most events are in several: the n-th of one kind that happened to one
// claim is the same everywhere.
class EventMerger {
 public:
  // Those of `pages` (one for each server) that were not returned before, oldest first.
  std::vector<Event> merge(const std::vector<std::optional<std::vector<Event>>>& pages);

 private:
  struct Count {
    std::map<std::size_t, std::size_t> seen;  // by server
    std::size_t told = 0;
  };
  std::map<std::string, Count> counts_;
};

// Positions in the logs of several servers as one, and back; empty where there is none.
std::string join_positions(const std::vector<std::string>& positions);
std::vector<std::string> split_positions(const std::string& joined, std::size_t servers);

// Of each group what the server tells that has counted most, sorted.
std::vector<GroupStatistics> merge_statistics(
    const std::vector<std::optional<std::vector<GroupStatistics>>>& answers);

}  // namespace klock::redlock
