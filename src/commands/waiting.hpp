// SPDX-License-Identifier: MIT
#pragma once

#include "commands/context.hpp"
#include "lease/acquirer.hpp"
#include "supervise/signals.hpp"

#include <string>

namespace klock {

// What the subcommands that wait for a lock have in common.

// From the settings; `begun` is when the waiting began.
WaitPolicy wait_policy(const Settings& settings, Instant begun);

// Says that the lock is taken and by whom; without `waited` it hints at -n. With `status` 0 only under -v:
// whoever chose it finds that all right, and cron must not mail it.
void report_busy(const Context& context, const std::string& name, const Busy& busy, bool waited, int status);

// A wait that a signal ended.
struct Interruption {
  int status;      // 128 + the signal's number
  int die_of = 0;  // not 0: to be passed on by dying, so that a calling shell sees it
};
Interruption interruption(int signal);
Interruption report_interruption(const Context& context, const std::string& name, SignalDesk& desk);

}  // namespace klock
