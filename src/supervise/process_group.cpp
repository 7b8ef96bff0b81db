// SPDX-License-Identifier: MIT
#include "supervise/process_group.hpp"

#include "util/directory.hpp"
#include "util/fd.hpp"
#include "util/procfs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

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

// The system's processes: their numbers as /proc has them now, the rest as each was when it was first looked
// at. That will do to tell who descends from whom: whoever has descended from a subreaper goes on to. Takes
// one descriptor at a time, as a command's limit may leave no more.
class Processes {
 public:
  Processes() {
    // An empty directory, or the procfs of another pid namespace, would tell us about nobody or about
    // strangers.
    std::array<char, 16> self{};
    const ssize_t length = readlink("/proc/self", self.data(), self.size());
    if (length <= 0 || parse_pid({self.data(), static_cast<std::size_t>(length)}) != getpid()) return;
    const Directory directory = open_directory("/proc");
    usable_ = directory != nullptr;
    while (const dirent* entry = directory ? readdir(directory.get()) : nullptr)
      if (const auto pid = parse_pid(entry->d_name)) pids_.push_back(*pid);
  }

  bool usable() const { return usable_; }
  const std::vector<pid_t>& pids() const { return pids_; }

  Look look(pid_t pid, Process& process) {
    const auto known = seen_.find(pid);
    if (known == seen_.end()) return look_again(pid, process);
    process = known->second.process;
    return known->second.look;
  }

  Look look_again(pid_t pid, Process& process) {
    const Look look = read_stat(pid, process);
    seen_[pid] = {look, process};
    return look;
  }

 private:
  struct Seen {
    Look look = Look::unknown;
    Process process;
  };

  static Look read_stat(pid_t pid, Process& process) {
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
    const Fd file(open(path.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 512> text{};
    const ssize_t length = file ? read(file.get(), text.data(), text.size() - 1) : -1;
    if (length <= 0) return length == 0 || errno == ENOENT || errno == ESRCH ? Look::gone : Look::unknown;
    return parse(text.data(), pid, process) ? Look::there : Look::unknown;
  }

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

  bool usable_ = false;
  std::vector<pid_t> pids_;
  std::unordered_map<pid_t, Seen> seen_;
};

enum class Member { no, yes, unknown };

// Goes up from `process` to `root`. When an ancestor is not there any more it has just died, and its child
// has a new parent by now; if the child still names it, we are not allowed to see it.
Member descends(Processes& processes, Process process, pid_t root) {
  while (process.parent != root) {
    if (process.parent <= 1) return Member::no;
    const pid_t above = process.parent;
    Process parent;
    Look seen = processes.look(above, parent);
    if (seen == Look::there) {
      process = parent;
    } else if (seen == Look::gone) {
      seen = processes.look_again(process.pid, process);
      if (seen == Look::gone || process.parent == above) return Member::no;
    }
    if (seen == Look::unknown) return Member::unknown;
  }
  return Member::yes;
}

// Of a process that may belong to the command.
Member examine(Processes& processes, Scope scope, pid_t pid, Process& process) {
  const pid_t self = getpid();
  if (pid == self) return Member::no;
  const Look seen = processes.look(pid, process);
  if (seen == Look::gone) return Member::no;
  if (seen == Look::unknown) return Member::unknown;
  if (!process.alive) return Member::no;
  return scope == Scope::own_group ? Member::yes : descends(processes, process, self);
}

// The guard of a klock that ran within the command and has been killed: it still stops what that one ran, in
// a group that is not ours. Of `klock run a -- klock run b -- work` the outer klock is killed: our stop kills
// the inner one after our grace, and `work` has that one's. Nobody but us keeps `a` until then.
bool is_orphaned_guard(Processes& processes, pid_t pid) {
  if (pid == getpid() || getpgid(pid) != pid) return false;
  Process process;
  return processes.look(pid, process) == Look::there && process.is_guard && process.alive &&
         process.parent == getpid();
}

enum class Children { none, living, some_dead };

Children children() {
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno == ECHILD ? Children::none : Children::some_dead;
  return info.si_pid == 0 ? Children::living : Children::some_dead;
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
  // Most are in its group, and what has to be dead at a certain time should not wait until we have read
  // /proc.
  if (scope_ == Scope::tree && signal == SIGKILL && command_ > 0) {
    kill(command_, signal);
    if (group_ == command_) kill(-group_, signal);
  }
  Processes processes;
  if (!processes.usable()) {
    if (command_ > 0) kill(command_, signal);
    return;
  }
  for (const pid_t pid : processes.pids()) {
    Process process;
    if (!may_belong(pid) || examine(processes, scope_, pid, process) != Member::yes) continue;
    if (signal != SIGCONT || process.stopped) kill(pid, signal);
  }
}

bool ProcessGroup::alive() const {
  // One reading of /proc is no proof: a member may be born with a number that has been passed already, and
  // its parent die before its own number is reached.
  return any_alive() || any_alive();
}

bool ProcessGroup::any_alive() const {
  const Children ours = children();
  if (ours == Children::none) return false;
  // Whoever descends from us has an ancestor among our children.
  if (ours == Children::living && scope_ == Scope::tree) return true;
  Processes processes;
  if (!processes.usable()) {
    if (scope_ != Scope::own_group) return true;
    siginfo_t info{};
    while (waitid(P_PGID, static_cast<id_t>(group_), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
      info = {};
    return kill(-group_, 0) == 0;
  }
  for (const pid_t pid : processes.pids()) {
    Process process;
    if (may_belong(pid) && examine(processes, scope_, pid, process) != Member::no) return true;
    if (is_orphaned_guard(processes, pid)) return true;
  }
  return false;
}

}  // namespace klock
