// SPDX-License-Identifier: MIT
#include "supervise/guard_descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>

namespace klock {
namespace {

// False: the kernel does not know it (before Linux 5.9), or does not let us.
bool close_between(int first, int last) {
  return first > last || close_range(static_cast<unsigned>(first), static_cast<unsigned>(last), 0) == 0;
}

bool is_mains(int fd) {
  const int flags = fcntl(fd, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) != 0;
}

// Closes each open descriptor of which `unwanted` says so; false: they cannot be known.
template <class Predicate>
bool close_each(Predicate unwanted) {
  const int listing = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) return false;
  // Closing while reading skips nothing: the entries are in order of their numbers.
  alignas(dirent64) std::array<char, 1024> buffer;
  for (;;) {
    const ssize_t size = getdents64(listing, buffer.data(), buffer.size());
    if (size <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      unsigned short length = 0;
      std::memcpy(&length, buffer.data() + at + offsetof(dirent64, d_reclen), sizeof length);
      const char* name = buffer.data() + at + offsetof(dirent64, d_name);
      int fd = -1;
      std::from_chars(name, name + std::strlen(name), fd);
      if (fd >= 0 && fd != listing && unwanted(fd)) close(fd);
      at += length;
    }
  }
  close(listing);
  return true;
}

// The same of those above the standard ones; without /proc each number that may be open is asked about.
template <class Predicate>
void close_each_above_standard(Predicate unwanted) {
  if (close_each([&](int fd) { return fd > STDERR_FILENO && unwanted(fd); })) return;
  const auto most = static_cast<int>(sysconf(_SC_OPEN_MAX));
  for (int fd = STDERR_FILENO + 1; fd < most; ++fd)
    if (unwanted(fd)) close(fd);
}

bool is_among(const std::vector<int>& kept, int fd) {
  return std::find(kept.begin(), kept.end(), fd) != kept.end();
}

}  // namespace

Fd off_standard(Fd fd) {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

void close_descriptors_of_main(const std::vector<int>& kept) {
  const auto unwanted = [&](int fd) { return !is_among(kept, fd) && is_mains(fd); };
  // Without /proc the command does not get what we can't tell from main's.
  if (!close_each(unwanted)) close_all_but(kept);
}

void close_descriptors_of_caller() {
  close_each_above_standard([](int fd) { return !is_mains(fd); });
}

void close_all_but(const std::vector<int>& kept) {
  for (int next = STDERR_FILENO + 1;;) {
    int nearest = std::numeric_limits<int>::max();
    for (const int fd : kept)
      if (fd >= next) nearest = std::min(nearest, fd);
    const bool is_last = nearest == std::numeric_limits<int>::max();
    if (!close_between(next, is_last ? nearest : nearest - 1)) break;
    if (is_last) return;
    next = nearest + 1;
  }
  close_each_above_standard([&](int fd) { return !is_among(kept, fd); });
}

void release_standard(int harmless) {
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int source = null ? null.get() : harmless;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fd != source) dup2(source, fd);
  if (null.get() <= STDERR_FILENO) null.release();
}

}  // namespace klock
