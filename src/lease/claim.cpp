// SPDX-License-Identifier: MIT
#include "lease/claim.hpp"

#include "lease/hold_mark.hpp"
#include "util/fd.hpp"
#include "util/procfs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace klock {
namespace {

constexpr std::size_t k_longest_message = 1000;

// The user's name without the name service: its modules cost more than the rest of a start.
std::string user_name() {
  const uid_t uid = geteuid();
  if (uid == 0) return "root";
  const std::string wanted = ":" + std::to_string(uid) + ":";
  const std::string accounts = read_small_file("/etc/passwd", std::size_t{1} << 20);
  for (std::size_t at = 0; at < accounts.size();) {
    const std::size_t end = std::min(accounts.find('\n', at), accounts.size());
    const std::string_view line = std::string_view(accounts).substr(at, end - at);
    const std::size_t name_end = line.find(':');
    const std::size_t uid_at = name_end == line.npos ? line.npos : line.find(':', name_end + 1);
    if (uid_at != line.npos && line.substr(uid_at, wanted.size()) == wanted)
      return std::string(line.substr(0, name_end));
    at = end + 1;
  }
  const char* login = std::getenv("LOGNAME");
  return login != nullptr && *login != '\0' ? login : "uid " + std::to_string(uid);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string origin() {
  std::array<char, 64> space{};
  const ssize_t length = readlink("/proc/self/ns/pid", space.data(), space.size());
  const std::string& boot = boot_id();
  if (length <= 0 || boot.size() < 8) return {};
  return boot.substr(0, 8) + "/" + std::string(space.data(), static_cast<std::size_t>(length));
}

std::string in_proc(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// The words of a klock, each between NULs.
std::string words_of(pid_t pid) {
  return '\0' + read_small_file(in_proc(pid, "cmdline"), std::size_t{1} << 20);
}

// A guard of some lock `name` whose main is gone is still stopping a command, and will release by itself.
bool is_orphaned_guard(pid_t pid, const std::string& name) {
  if (read_small_file(in_proc(pid, "comm"), 64) != std::string(k_guard_name) + "\n") return false;
  const std::string words = words_of(pid);
  if (words.find('\0' + name + '\0') == std::string::npos) return false;
  // Its words are those of its main; whoever took it over when that died has others.
  const pid_t parent = parent_of(pid);
  return parent != 0 && words_of(parent) != words;  // 0: it has just ended
}

// Whether a process with this environment was started under the hold with this id.
bool is_under_hold(const std::string& environment, std::string_view id) {
  if (environment.find("KLOCK_TOKEN=" + std::string(id)) != std::string::npos) return true;
  const std::size_t held = environment.find("KLOCK_HELD=");
  if (held == std::string::npos) return false;
  const std::size_t end = environment.find('\0', held);
  return environment.substr(held, end - held).find(id) != std::string::npos;
}

}  // namespace

std::string_view mode_name(Mode mode) {
  switch (mode) {
    case Mode::exclusive:
      return "exclusive";
    case Mode::shared:
      return "shared";
    case Mode::slots:
      return "slots";
  }
  return "exclusive";
}

Person describe_self(std::string program, std::string message) {
  if (message.size() > k_longest_message) message.resize(k_longest_message);
  return Person{user_name(), host_name(), getpid(), std::move(program), std::move(message), origin()};
}

bool provably_dead(const Person& who, const std::string& name, std::string_view token_id) {
  if (who.origin.empty() || who.origin != origin() || who.pid <= 0) return false;
  if (kill(who.pid, 0) == 0 || errno != ESRCH) return false;
  const std::vector<pid_t> processes = all_processes();
  // Those of others may be hidden (hidepid), or /proc could not be read.
  if (std::find(processes.begin(), processes.end(), 1) == processes.end()) return false;
  for (const pid_t pid : processes) {
    if (pid == 1) continue;  // init is nobody's command, and is often not to be looked into
    if (is_orphaned_guard(pid, name) || marks_hold(pid, token_id)) return false;
    const Fd environment(open(in_proc(pid, "environ").c_str(), O_RDONLY | O_CLOEXEC));
    if (!environment && errno != ENOENT && errno != ESRCH) return false;
    if (is_under_hold(read_all(environment.get(), std::size_t{4} << 20), token_id)) return false;
  }
  return true;
}

}  // namespace klock
