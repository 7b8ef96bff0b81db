// SPDX-License-Identifier: MIT
#pragma once

#include <tl/expected.hpp>

#include <string>

namespace klock {

// The whole of a small file, at most 1 MiB. A pipe, such as <(command) of a shell, is waited for up to 5 s.
// On failure an errno value: EFBIG when larger, ETIMEDOUT when a pipe stays silent.
tl::expected<std::string, int> read_config_text(const std::string& path);

}  // namespace klock
