// SPDX-License-Identifier: MIT
#include "util/procfs.hpp"

#include "util/directory.hpp"
#include "util/fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace klock {

std::string read_small_file(const std::string& path, std::size_t limit) {
  return read_all(Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).get(), limit);
}

const std::string& boot_id() {
  static const std::string id = [] {
    const std::string text = read_small_file("/proc/sys/kernel/random/boot_id", 64);
    return text.substr(0, text.find('\n'));
  }();
  return id;
}

std::string read_all(int fd, std::size_t limit) {
  std::string text;
  if (fd < 0) return text;
  char block[4096];
  while (text.size() < limit) {
    const ssize_t got = read(fd, block, std::min(sizeof block, limit - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  return text;
}

pid_t parent_of(pid_t pid) {
  const std::string stat = read_small_file("/proc/" + std::to_string(pid) + "/stat", 1024);
  // The name may contain anything: the fields begin after the last parenthesis, with the state.
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  return static_cast<pid_t>(std::strtol(stat.c_str() + name_end + 4, nullptr, 10));
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  const Directory proc = open_directory("/proc");
  if (!proc) return pids;
  while (const dirent* entry = readdir(proc.get()))
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
      pids.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  return pids;
}

bool any_descriptor(pid_t pid, const std::function<bool(const std::string& path)>& matches) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/";
  const Directory listing = open_directory(path);
  if (!listing) return false;
  while (const dirent* entry = readdir(listing.get()))
    if (matches(path + entry->d_name)) return true;
  return false;
}

}  // namespace klock
