// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"

#include <string>
#include <string_view>

namespace klock {

// Puts the values of the TOML `text`, the content of `path`, over those in `values`; each value's `where` is
// "PATH:LINE". The switches nonblock, quiet and verbose become values of "wait" and "verbosity". Errors:
// config (not TOML, unknown key, wrong type, contradiction), with path and line.
Status add_config_file(std::string_view text, const std::string& path, Origin origin, RawValues& values);

}  // namespace klock
