// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.hpp"
#include "util/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace klock {

// A command line, taken apart at the borders that CLI11 can't know.
struct SplitWords {
  std::vector<std::string> own;       // our options with their values, as written: for parse_options()
  std::vector<std::string> operands;  // subcommand: none; name_and_command: NAME or nothing
  std::vector<std::string> command;   // name_and_command: byte for byte
  std::size_t used = 0;               // how many words were looked at: for `subcommand` all before its name
};

// Tells our options from the other words by the rules of `syntax`. The word after an option that takes a
// value is its value whatever it looks like; `-` alone is no option. `--` ends the options. name_and_command:
// after NAME our own options are still ours; the first other word, or everything after the first `--`, is the
// command. A `--` before NAME ends the options for good: the word after NAME starts the command (one more
// `--` there is skipped). --help and --version end the splitting where they stand: what comes after is not
// looked at. Pure. Errors (usage): an unknown option, with the nearest known one.
Result<SplitWords> split_words(const Syntax& syntax, std::span<const std::string> words);

}  // namespace klock
