// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "lease/lock_store.hpp"

#include <memory>
#include <string>

namespace klock {

// Locks that a majority of independent servers keeps. See redlock_session.hpp.
std::unique_ptr<LockStore> open_redlock_store(const RedlockUrl& url, const std::string& prefix);

}  // namespace klock
