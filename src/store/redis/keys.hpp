// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// The part of a key that decides about its Cluster slot: its hash tag, if it has one, else the whole.
std::string_view slot_part(std::string_view key);

// The keys of one lock, in the order in which the scripts expect them. Those of a prefix apart they share the
// lock key's Cluster slot. A lock key with a hash tag of its own gives "KEY:klock:PART", any other
// "{KEY}:PART": those of a name with a '}' and no hash tag lie in different slots, which a Cluster refuses.
struct LockKeys {
  // `group`: of the statistics.
  LockKeys(std::string_view key, std::string_view prefix, std::string_view group = {});

  std::string key;
  std::string holders;
  std::string waiters;
  std::string queue;
  std::string fence;
  std::string requests;
  std::string readers;
  std::string slots;
  std::string joined;
  std::string index;   // of all locks of this prefix
  std::string events;  // likewise, as the following
  std::string groups;  // those that have statistics
  std::string stats;   // of the group
  std::string other_stats;
  std::string channel_prefix;
  std::string once_prefix;

  // For a script; `once`: the marker's key (once_key), empty where there is none to look after.
  std::vector<std::string_view> own(std::string_view once = {}) const {
    return {key, holders, waiters, queue, fence, requests, readers, slots, joined, once.empty() ? key : once};
  }
  // Those of the prefix.
  std::vector<std::string_view> common() const { return {index, events, groups, stats, other_stats}; }
  std::string once_key(std::string_view once) const { return once_prefix + std::string(once); }
  std::string channel(std::string_view id) const { return channel_prefix + std::string(id); }
};

// The sorted set with the locks of a prefix: member lock key, score when it can be forgotten. Its name lies
// outside the prefix, so that no lock has it.
std::string index_key(std::string_view prefix);
// The stream with the audit log of a prefix, named likewise; and the sorted set of the groups that have
// statistics (member group, score when it was last used), with a hash for each.
std::string events_key(std::string_view prefix);
std::string groups_key(std::string_view prefix);
std::string stats_key(std::string_view prefix, std::string_view group);

}  // namespace klock::redis
