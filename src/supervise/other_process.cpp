// SPDX-License-Identifier: MIT
#include "supervise/other_process.hpp"

#include "util/interrupt.hpp"
#include "util/procfs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

extern "C" {  // which the header of glibc 2.36 forgot (bug 29655)
#include <sys/pidfd.h>
}

namespace klock {
namespace {

std::string words_of(pid_t pid) {
  return read_small_file("/proc/" + std::to_string(pid) + "/cmdline", std::size_t{1} << 20);
}

// Whether `pid` has the reading end of the pipe `ours`.
bool reads(pid_t pid, const struct stat& ours) {
  return any_descriptor(pid, [&](const std::string& path) {
    struct stat link {};
    struct stat target {};
    // The permissions of the link tell how the descriptor was opened.
    return lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode) && (link.st_mode & S_IRUSR) != 0 &&
           stat(path.c_str(), &target) == 0 && target.st_dev == ours.st_dev && target.st_ino == ours.st_ino;
  });
}

// Shells run the inside of `$(...)` in a process of its own that ends with it, unless they can do without: it
// depends on traps, redirections and versions. Such a process was forked and runs no program of its own, so
// it has the words of its shell; and the shell reads our output. The outermost of those that can read it is
// the one: mksh leaves the reading end open in the substitution.
pid_t serving_pid() {
  const pid_t parent = getppid();
  struct stat output {};
  if (parent <= 1 || fstat(STDOUT_FILENO, &output) != 0 || !S_ISFIFO(output.st_mode)) return parent;
  const std::string words = words_of(parent);
  pid_t found = parent;
  for (pid_t at = parent; at > 1 && !words.empty() && words_of(at) == words; at = parent_of(at))
    if (reads(at, output)) found = at;
  return found;
}

}  // namespace

Result<OtherProcess> OtherProcess::open(pid_t pid) {
  Fd fd(pidfd_open(pid, 0));
  if (fd) return OtherProcess(pid, std::move(fd));
  const std::string number = std::to_string(pid);
  // EINVAL: a thread's number.
  if (errno == ESRCH || errno == EINVAL) return failure(ErrorKind::usage, "there is no process " + number);
  return system_failure("cannot watch process " + number, errno);
}

bool OtherProcess::has_ended() const {
  return wait_ready(fd_.get(), POLLIN, BootClock::now(), {}) == Ready::descriptor;
}

std::string OtherProcess::program() const {
  std::string name = read_small_file("/proc/" + std::to_string(pid_) + "/comm", 64);
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

Fd OtherProcess::open_stderr() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/fd/2";
  // In a file it must not overwrite what is there.
  Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  // As long as it lives, nobody else has its number.
  return fd && !has_ended() ? std::move(fd) : Fd();
}

void OtherProcess::send(int signal) const {
  pidfd_send_signal(fd_.get(), signal, nullptr, 0);
}

Result<OtherProcess> calling_shell() {
  for (;;) {
    const pid_t pid = serving_pid();
    if (pid == 0)
      return failure(ErrorKind::usage, "the calling process cannot be seen from here", "name one with --pid");
    auto shell = OtherProcess::open(pid);
    // Still the same after opening: the number was not given to another one in between.
    if (pid == serving_pid()) return shell;
  }
}

}  // namespace klock
