// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.hpp"
#include "util/result.hpp"

#include <string>
#include <vector>

namespace klock {

struct GivenOption {
  const Option* option;
  std::string value;  // empty for a switch

  std::string written() const;  // "--ttl", or "-c" for one without a long name: for messages
};

// Parses our own option words (SplitWords::own) with CLI11: `--ttl 5s`, `--ttl=5s`, `-w5`, clusters such as
// `-nq`. In the order given. Errors (usage): a value that is missing or not wanted.
Result<std::vector<GivenOption>> parse_options(const Syntax& syntax, const std::vector<std::string>& own);

// What `--help` prints: usage, options by group, notes.
std::string help_text(const Syntax& syntax);

}  // namespace klock
