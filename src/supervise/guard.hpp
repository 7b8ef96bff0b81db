// SPDX-License-Identifier: MIT
#pragma once

#include "supervise/guard_page.hpp"
#include "util/fd.hpp"

namespace klock {

// The life of the guard process, right after its fork; `line` is its end of the line to main. Uses of the
// caller's memory what `options` refers to; closes every descriptor of main's, keeps those that klock itself
// was given for the command.
[[noreturn]] void be_the_guard(Fd line, GuardPage& page, const JobOptions& options);

}  // namespace klock
