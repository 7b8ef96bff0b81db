// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace klock {

// Where what has to outlast a reboot lies: for a default lock directory /var/lib/klock, or
// $XDG_STATE_HOME/klock
// (~/.local/state) of other users than root; "": nowhere, as HOME is not set.
std::string state_directory();

}  // namespace klock
