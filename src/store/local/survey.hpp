// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "store/local/lock_directory.hpp"
#include "util/clock.hpp"
#include "util/interrupt.hpp"
#include "util/result.hpp"

#include <string>
#include <vector>

namespace klock {

// survey*: looking at locks without taking part: nothing is locked, created or written.

// Errors: refused, system.
Result<LockState> survey(const LockDirectory& directory, const LockName& lock);

// See LockStore::list. What cannot be a lock file is left out. Errors: refused, system; system too when
// interrupted or late.
Result<std::vector<LockState>> survey_all(const LockDirectory& directory, const std::string& prefix,
                                          const std::string& pattern, Instant deadline, Interrupt interrupt);

// Removes the file of a lock that nobody uses any more, after a cooldown or a crash; or all of them, without
// a look at those that are known to be `in_use`. Files without a record of ours stay. Best effort, never
// blocks.
void sweep(const LockDirectory& directory, const std::string& file_name);
void sweep_all(const LockDirectory& directory, const std::vector<LockState>& in_use = {});

}  // namespace klock
