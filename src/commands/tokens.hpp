// SPDX-License-Identifier: MIT
#pragma once

#include "commands/ancestors.hpp"
#include "util/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace klock {

// The token that a script means: `given`, else the first line of `file`, else KLOCK_TOKEN; or, after it, one
// of those in KLOCK_HELD, newest first: a script may have several locks, and a run may have joined the hold
// of another. Not empty. Errors: usage, and system for a file that can't be read; none shows what may be a
// token.
Result<std::vector<KnownToken>> find_tokens(const std::optional<std::string>& given,
                                            const std::optional<std::string>& file);

}  // namespace klock
