// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/route.hpp"

#include <memory>
#include <string>

namespace klock {

// Locks in one Redis or Valkey server, 5.0 or later, or in the master of several.
std::unique_ptr<LockStore> open_redis_store(const redis::Site& site, const std::string& prefix);

}  // namespace klock
