// SPDX-License-Identifier: MIT
#include "config/read_file.hpp"

#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace klock {

tl::expected<std::string, int> read_config_text(const std::string& path) {
  constexpr std::size_t k_most = 1 << 20;
  // Not to hang in open() on a pipe that nobody writes to.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return tl::unexpected<int>(errno);
  const Instant deadline = BootClock::now() + std::chrono::seconds(5);
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count == 0) return text;
    if (count > 0) {
      text.append(part.data(), static_cast<std::size_t>(count));
      if (text.size() > k_most) return tl::unexpected<int>(EFBIG);
    } else if (errno == EAGAIN) {
      if (wait_ready(file.get(), POLLIN, deadline, {}) != Ready::descriptor)
        return tl::unexpected<int>(ETIMEDOUT);
    } else if (errno != EINTR) {
      return tl::unexpected<int>(errno);
    }
  }
}

}  // namespace klock
