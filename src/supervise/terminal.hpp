// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

namespace klock {

// The controlling terminal, for main's process group. Each call opens and closes it: it is rarely needed.
// None of them blocks or fails loudly; without a terminal there is nothing to do.

// Whether our group is the terminal's foreground group.
bool in_foreground();

// Makes `to` the foreground group if it is `from`'s turn now; false if it was not, or there is no terminal.
bool pass_terminal(pid_t from, pid_t to);

// Suspends our whole group with the job-control stop `signal`, as the kernel does for a group that touches
// the terminal out of turn; returns when it is continued. False: nothing was suspended, as the group is
// orphaned and nobody could ever continue it.
bool suspend_like(int signal);

}  // namespace klock
