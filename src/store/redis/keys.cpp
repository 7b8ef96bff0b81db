// SPDX-License-Identifier: MIT
#include "store/redis/keys.hpp"

#include "lease/statistics.hpp"

namespace klock::redis {
namespace {

// Before what belongs to a prefix; always the same slot.
std::string base_of(std::string_view prefix) {
  // "{}" would be no hash tag.
  const std::string tag = prefix.empty() || prefix.front() == '}' ? "klock" : "";
  return "{" + tag + std::string(prefix) + "}:";
}

}  // namespace

std::string_view slot_part(std::string_view key) {
  const std::string_view tag = hash_tag(key);
  return tag.empty() ? key : tag;
}

LockKeys::LockKeys(std::string_view lock_key, std::string_view prefix, std::string_view group)
    : key(lock_key),
      index(index_key(prefix)),
      events(events_key(prefix)),
      groups(groups_key(prefix)),
      stats(stats_key(prefix, group)),
      other_stats(stats_key(prefix, k_other_group)) {
  const std::string base = slot_part(key).size() < key.size() ? key + ":klock:" : "{" + key + "}:";
  holders = base + "holders";
  waiters = base + "waiters";
  queue = base + "queue";  // the scripts derive the channels from this name
  fence = base + "fence";
  requests = base + "requests";
  readers = base + "readers";
  slots = base + "slots";
  joined = base + "joined";
  channel_prefix = base + "wake:";
  once_prefix = base + "once:";
}

std::string index_key(std::string_view prefix) {
  return base_of(prefix) + "index";
}

std::string groups_key(std::string_view prefix) {
  return base_of(prefix) + "groups";
}

std::string stats_key(std::string_view prefix, std::string_view group) {
  return base_of(prefix) + "stats:" + std::string(group);
}

std::string events_key(std::string_view prefix) {
  return base_of(prefix) + "events";
}

}  // namespace klock::redis
