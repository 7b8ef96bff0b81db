// SPDX-License-Identifier: MIT
#pragma once

namespace klock {

// Parses argv, runs the subcommand and returns klock's exit status. The only room that knows CLI11.
int run_cli(int argc, char** argv);

}  // namespace klock
