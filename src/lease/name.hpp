// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace klock {

// A lock as people call it (`name`) and as the store knows it (`key`): prefix + name, or what --key says.
struct LockName {
  std::string name;
  std::string key;
};

// 1-200 bytes of valid UTF-8 without control characters and spaces. Errors: usage, with the reason.
Status check_lock_name(std::string_view name);

// Likewise for the key of once-only work (Once).
Status check_once_key(std::string_view key);

// Checks `name` and makes the key. Braces are refused unless they form a Cluster hash tag, as they would part
// a lock from its queue. Errors: usage.
Result<LockName> make_lock_name(const std::string& prefix, const std::string& name,
                                const std::optional<std::string>& key);

// The part of `key` that Redis Cluster hashes (between the first { and the next }); empty: the whole key.
// Source: the Redis Cluster specification, "Hash tags".
std::string_view hash_tag(std::string_view key);

}  // namespace klock
