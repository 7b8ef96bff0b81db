// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"
#include "lease/lock_store.hpp"

#include <memory>

namespace klock {

// The store that a URL names. Touches nothing: no directory is made and no byte sent before the first call.
// `prefix` bounds what list() shows.
std::unique_ptr<LockStore> open_store(const StoreUrl& url, const std::string& prefix);

}  // namespace klock
