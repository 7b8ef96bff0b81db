// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace klock {

enum class Shell {
  posix,  // sh, bash, dash, zsh, ksh
  fish
};

// One word of `shell` that means exactly `text`, whatever bytes it has (but NUL, which no shell can hold).
std::string shell_quoted(std::string_view text, Shell shell = Shell::posix);

// A command that sets and exports `variable`, on a line of its own. It ends in a semicolon, so that it
// survives an `eval` that forgot the quotes, which joins the lines.
std::string shell_export(std::string_view variable, std::string_view value, Shell shell);

// A command that unsets `variable` (an exported one) if it is set, and succeeds; likewise.
std::string shell_unset(std::string_view variable, Shell shell);

// A command that does nothing but end with `status` (not 0), likewise.
std::string shell_failure(int status, Shell shell);

}  // namespace klock
