// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"

#include <memory>
#include <string>

namespace klock {

// Locks of this host, from the kernel's open-file-description locks: no server, no lease, nothing to renew.
// `directory` empty: /run/lock/klock for root, else /run/lock/klock-UID, or $XDG_RUNTIME_DIR/klock where that
// is not just the session's own /run/user/UID.
std::unique_ptr<LockStore> open_local_store(const std::string& directory, const std::string& prefix);

}  // namespace klock
