// SPDX-License-Identifier: MIT
#include "supervise/process_group.hpp"

#include "util/directory.hpp"
#include "util/fd.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace klock {
namespace {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  bool alive = false;
  bool stopped = false;
  bool is_guard = false;
};

enum class Look { there, gone, unknown };

std::optional<pid_t> parse_pid(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc{} || end != text.data() + text.size() || pid <= 0) return std::nullopt;
  return pid;
}

// The system's processes, as /proc shows them now.
class ProcDirectory {
 public:
  ProcDirectory() : directory_(open_directory("/proc")) {
    // An empty directory, or the procfs of another pid namespace, would tell us about nobody or about
    // strangers.
    std::array<char, 16> self{};
    const ssize_t length =
        directory_ ? readlinkat(dirfd(directory_.get()), "self", self.data(), self.size()) : -1;
    usable_ = length > 0 && parse_pid({self.data(), static_cast<std::size_t>(length)}) == getpid();
  }

  bool usable() const { return usable_; }

  std::optional<pid_t> next() {
    while (const dirent* entry = readdir(directory_.get()))
      if (const auto pid = parse_pid(entry->d_name)) return pid;
    return std::nullopt;
  }

  Look look(pid_t pid, Process& process) const {
    std::array<char, 24> path{};
    std::snprintf(path.data(), path.size(), "%d/stat", pid);
    const Fd file(openat(dirfd(directory_.get()), path.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 512> text{};
    const ssize_t length = file ? read(file.get(), text.data(), text.size() - 1) : -1;
    if (length <= 0) return length == 0 || errno == ENOENT || errno == ESRCH ? Look::gone : Look::unknown;
    return parse(text.data(), pid, process) ? Look::there : Look::unknown;
  }

 private:
  static bool parse(const char* text, pid_t pid, Process& process) {
    const char* name = std::strchr(text, '(');
    const char* after_name = std::strrchr(text, ')');  // the name may hold spaces and parentheses itself
    if (name == nullptr || after_name == nullptr) return false;
    const std::string_view comm(name + 1, static_cast<std::size_t>(after_name - name - 1));
    process.is_guard = comm == k_guard_name;
    char state = 0;
    int threads = 0;
    if (std::sscanf(after_name + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
                    &state, &process.parent, &threads) != 3)
      return false;
    process.pid = pid;
    // A process whose first thread has ended looks like a zombie while the others run.
    process.alive = (state != 'Z' && state != 'X') || threads > 1;
    process.stopped = state == 'T';
    return true;
  }

  Directory directory_;
  bool usable_ = false;
};

enum class Member { no, yes, unknown };

// Goes up from `process` to `root`. When an ancestor is not there any more it has just died, and its child
// has a new parent by now; if the child still names it, we are not allowed to see it.
Member descends(const ProcDirectory& proc, Process process, pid_t root) {
  while (process.parent != root) {
    if (process.parent <= 1) return Member::no;
    const pid_t above = process.parent;
    Process parent;
    Look seen = proc.look(above, parent);
    if (seen == Look::there) {
      process = parent;
    } else if (seen == Look::gone) {
      seen = proc.look(process.pid, process);
      if (seen == Look::gone || process.parent == above) return Member::no;
    }
    if (seen == Look::unknown) return Member::unknown;
  }
  return Member::yes;
}

// Of a process that may belong to the command.
Member examine(const ProcDirectory& proc, Scope scope, pid_t pid, Process& process) {
  const pid_t self = getpid();
  if (pid == self) return Member::no;
  const Look seen = proc.look(pid, process);
  if (seen == Look::gone) return Member::no;
  if (seen == Look::unknown) return Member::unknown;
  if (!process.alive) return Member::no;
  return scope == Scope::own_group ? Member::yes : descends(proc, process, self);
}

// The guard of a klock that ran within the command and has been killed: it still stops what that one ran, in
// a group that is not ours. Of `klock run a -- klock run b -- work` the outer klock is killed: our stop kills
// the inner one after our grace, and `work` has that one's. Nobody but us keeps `a` until then.
bool is_orphaned_guard(const ProcDirectory& proc, pid_t pid) {
  if (pid == getpid() || getpgid(pid) != pid) return false;
  Process process;
  return proc.look(pid, process) == Look::there && process.is_guard && process.alive &&
         process.parent == getpid();
}

bool have_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace

// Dismisses most processes by one call.
bool ProcessGroup::may_belong(pid_t pid) const {
  if (scope_ == Scope::tree || pid == command_) return true;
  const pid_t group = getpgid(pid);
  return group == group_ || (scope_ == Scope::shared_group && group == led_);
}

void ProcessGroup::signal(int signal) const {
  if (scope_ == Scope::own_group) {
    const bool elsewhere = command_ > 0 && getpgid(command_) != group_;
    kill(-group_, signal);
    if (elsewhere) kill(command_, signal);
    return;
  }
  ProcDirectory proc;
  if (!proc.usable()) {
    if (command_ > 0) kill(command_, signal);
    return;
  }
  while (const auto pid = proc.next()) {
    Process process;
    if (!may_belong(*pid) || examine(proc, scope_, *pid, process) != Member::yes) continue;
    if (signal != SIGCONT || process.stopped) kill(*pid, signal);
  }
}

bool ProcessGroup::alive() const {
  // One reading of /proc is no proof: a member may be born with a number that has been passed already, and
  // its parent die before its own number is reached.
  return any_alive() || any_alive();
}

bool ProcessGroup::any_alive() const {
  if (!have_children()) return false;
  ProcDirectory proc;
  if (!proc.usable()) {
    if (scope_ != Scope::own_group) return true;
    siginfo_t info{};
    while (waitid(P_PGID, static_cast<id_t>(group_), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
      info = {};
    return kill(-group_, 0) == 0;
  }
  while (const auto pid = proc.next()) {
    Process process;
    if (may_belong(*pid) && examine(proc, scope_, *pid, process) != Member::no) return true;
    if (is_orphaned_guard(proc, *pid)) return true;
  }
  return false;
}

}  // namespace klock
