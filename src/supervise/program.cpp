// SPDX-License-Identifier: MIT
#include "supervise/program.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace klock {
namespace {

// What PATH means when it is not set at all (execvp(3)).
constexpr const char* k_default_path = "/bin:/usr/bin";

// 0, or the errno that execve(2) would give before it reads the file.
int check_executable(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace

std::variant<std::string, ProgramMissing> find_program(const std::string& name) {
  if (name.empty()) return ProgramMissing{ENOENT};
  if (name.find('/') != std::string::npos) {
    const int error = check_executable(name);
    if (error != 0) return ProgramMissing{error};
    return name;
  }
  const char* set = std::getenv("PATH");
  std::string_view rest = set != nullptr ? set : k_default_path;
  int error = ENOENT;
  for (;;) {
    const auto colon = rest.find(':');
    const auto directory = rest.substr(0, colon);
    std::string path(directory.empty() ? "." : directory);  // an empty element is the working directory
    path += '/';
    path += name;
    const int found = check_executable(path);
    if (found == 0) return path;
    // Not allowed here does not mean not allowed further on; but if nothing else turns up, it is the better
    // reason.
    if (found == EACCES) error = EACCES;
    if (colon == std::string_view::npos) return ProgramMissing{error};
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace klock
