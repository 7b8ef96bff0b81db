// SPDX-License-Identifier: MIT
#include "output/stdout.hpp"

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace klock {

Status write_stdout(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t wrote = write(STDOUT_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_failure("cannot write to standard output", errno);
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace klock
