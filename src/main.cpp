// SPDX-License-Identifier: MIT
#include "cli/parser.hpp"
#include "util/exit_status.hpp"

#include <unistd.h>

#include <cstring>
#include <exception>

int main(int argc, char** argv) {
  try {
    return klock::run_cli(argc, argv);
  } catch (const std::exception& fault) {
    const char* const parts[] = {"klock: internal error: ", fault.what(), "\n"};
    for (const char* part : parts)
      if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
    return klock::k_exit_internal;
  }
}
