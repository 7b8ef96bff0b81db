// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <string>

namespace klock {

// Writes all of `text` to standard output; only for subcommands that run no command. Errors: system (a full
// disk behind `klock status > file` must not look like success).
Status write_stdout(const std::string& text);

}  // namespace klock
