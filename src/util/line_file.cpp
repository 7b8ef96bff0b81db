// SPDX-License-Identifier: MIT
#include "util/line_file.hpp"

#include "util/file_limit.hpp"

#include <fcntl.h>

#include <cerrno>

namespace klock {

Fd open_for_lines(const std::string& path, mode_t mode) {
  return Fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
}

int append_line(const Fd& file, std::string_view line) {
  const std::string text = std::string(line) + '\n';
  const NoFileLimitSignal quiet;
  const ssize_t put = write(file.get(), text.data(), text.size());
  if (put < 0) return errno;
  if (put == static_cast<ssize_t>(text.size())) return 0;
  [[maybe_unused]] const ssize_t ended = write(file.get(), "\n", 1);
  return ENOSPC;
}

}  // namespace klock
