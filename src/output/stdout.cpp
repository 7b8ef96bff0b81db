// SPDX-License-Identifier: MIT
#include "output/stdout.hpp"

#include "util/interrupt.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace klock {

Status write_stdout(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t wrote = write(STDOUT_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    // Somebody who shares it does not want to be blocked; we do.
    if (wrote < 0 && errno == EAGAIN && wait_ready(STDOUT_FILENO, POLLOUT, k_never, {}) == Ready::descriptor)
      continue;
    if (wrote < 0) return system_failure("cannot write to standard output", errno);
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace klock
