// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"

#include <memory>

namespace klock {

// Grants everything to everyone, and keeps nothing: for those who go on without a lock (--if-unavailable
// run). The leases have no end, and the fence is 0, below all that were ever given.
std::unique_ptr<LockStore> open_unlocked_store();

}  // namespace klock
