// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"

#include <vector>

namespace klock {

// The housekeeping of processes that go on beside klock. The guard keeps what klock was given for the command
// (0-2, a make job server, a script's `exec 3>`) until the command has it, and not longer: a guard that
// outlives the command must not hold a pipe open. A shell's keeper keeps nothing of it.

// The same descriptor at a number above 2: klock may have been started without stdin, stdout or stderr.
Fd off_standard(Fd fd);

// Closes every close-on-exec descriptor except `kept`: they are all main's (its connection, above all, must
// break when main dies). The others were inherited.
void close_descriptors_of_main(const std::vector<int>& kept);

// The opposite: closes what was inherited, above 2. Of what is close-on-exec everything stays.
void close_descriptors_of_caller();

// Closes everything above 2 but these (-1 is skipped).
void close_all_but(const std::vector<int>& kept);

// Points 0-2 at /dev/null; where there is none, at `harmless`, which nothing can be written to.
void release_standard(int harmless);

}  // namespace klock
