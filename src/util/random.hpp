// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <cstdint>
#include <string>

namespace klock {

// 128 bits from getrandom(2) as 32 lower-case hexadecimal digits. Blocks only before the kernel's pool is
// seeded.
Result<std::string> random_hex128();

// Uniform in [0, limit), for pauses that must not fall into step; limit > 0. Not for secrets.
std::uint64_t random_below(std::uint64_t limit);

}  // namespace klock
