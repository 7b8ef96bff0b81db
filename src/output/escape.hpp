// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace klock {

// Makes foreign text safe for a terminal: control characters (C0, DEL, C1), invalid UTF-8, and bidirectional
// and other invisible formatting characters become \xNN or \u{NNNN}; a backslash becomes \\. Cut after
// `limit` bytes with "...".
std::string escape_text(std::string_view text, std::size_t limit = 1000);

// The same for text that was partly escaped already: backslashes stay, nothing is cut. Idempotent.
std::string terminal_safe(std::string_view text);

}  // namespace klock
