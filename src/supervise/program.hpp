// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <variant>

namespace klock {

struct ProgramMissing {
  int error;
};  // errno: ENOENT (status 127), EACCES and others (status 126)

// Looks `name` up the way execvp(3) would: as a path if it has a slash, else in $PATH, so that a
// mistake shows before anything is acquired. Returns the path to execute.
std::variant<std::string, ProgramMissing> find_program(const std::string& name);

}  // namespace klock
