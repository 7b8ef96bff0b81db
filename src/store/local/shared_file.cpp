// SPDX-License-Identifier: MIT
#include "store/local/shared_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>

namespace klock {

Fd open_shared(const std::string& path, int flags, mode_t mode) {
  const int all = flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
  constexpr int k_tries = 3;  // another may make it, or take it away, in between
  for (int i = 0; i < k_tries; ++i) {
    Fd file(open(path.c_str(), all));
    if (file || errno != ENOENT) return file;
    file.reset(open(path.c_str(), all | O_CREAT | O_EXCL, mode));
    if (file) fchmod(file.get(), mode);
    if (file || errno != EEXIST) return file;
  }
  return Fd();
}

bool has_room(const Fd& file) {
  constexpr unsigned long k_plenty = 16UL << 20;
  struct statvfs facts {};
  if (fstatvfs(file.get(), &facts) != 0) return true;
  return facts.f_bavail >= facts.f_blocks / 8 || facts.f_bavail * facts.f_frsize >= k_plenty;
}

}  // namespace klock
