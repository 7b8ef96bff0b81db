// SPDX-License-Identifier: MIT
#include "supervise/signals.hpp"

#include "util/signal_set.hpp"

#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace klock {
namespace {

// The kernel's highest signal number is 64; glibc keeps the first two real-time ones for itself.
bool exists(int signal) {
  return (signal >= 1 && signal < 32) || (signal >= SIGRTMIN && signal <= SIGRTMAX);
}

bool can_be_forwarded(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:  // cannot be caught
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:  // our own faults
    case SIGCHLD:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:  // must act on us
      return false;
    default:
      return exists(signal);
  }
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool same_name(std::string_view text, std::string_view name) {
  return text.size() == name.size() && strncasecmp(text.data(), name.data(), name.size()) == 0;
}

// "RTMIN", "RTMIN+n", "RTMAX", "RTMAX-n"
std::optional<int> parse_real_time(std::string_view text) {
  const auto base = text.substr(0, 5);
  const auto rest = text.size() > 5 ? text.substr(5) : std::string_view{};
  const auto offset = rest.empty() ? 0 : parse_number(rest.substr(1));
  if (!offset || *offset < 0 || *offset > 64) return std::nullopt;
  if (same_name(base, "RTMIN") && (rest.empty() || rest[0] == '+')) return SIGRTMIN + *offset;
  if (same_name(base, "RTMAX") && (rest.empty() || rest[0] == '-')) return SIGRTMAX - *offset;
  return std::nullopt;
}

std::optional<int> parse_name(std::string_view text) {
  if (text.size() > 3 && same_name(text.substr(0, 3), "SIG")) text.remove_prefix(3);
  for (int signal = 1; signal < 32; ++signal)
    if (const char* name = sigabbrev_np(signal); name != nullptr && same_name(text, name)) return signal;
  if (same_name(text, "IO")) return SIGIO;
  if (same_name(text, "IOT")) return SIGABRT;
  if (same_name(text, "CLD")) return SIGCHLD;
  return parse_real_time(text);
}

}  // namespace

Result<SignalDesk> SignalDesk::open() {
  SignalDesk desk;
  sigset_t waiting;
  sigemptyset(&waiting);
  sigemptyset(&desk.watched_);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (!can_be_forwarded(signal) || is_ignored(signal)) continue;
    sigaddset(&desk.watched_, signal);
    if (ends_waiting(signal)) sigaddset(&waiting, signal);
  }
  if (sigprocmask(SIG_BLOCK, &desk.watched_, &desk.original_mask_) != 0)
    return system_failure("cannot block signals", errno);
  struct sigaction by_default {};
  struct sigaction before {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &before);
  desk.chld_was_ignored_ = before.sa_handler == SIG_IGN;
  desk.fd_.reset(signalfd(-1, &waiting, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!desk.fd_) return system_failure("cannot watch signals", errno);
  return desk;
}

void SignalDesk::watch_all() {
  signalfd(fd_.get(), &watched_, SFD_NONBLOCK | SFD_CLOEXEC);
}

std::optional<signalfd_siginfo> SignalDesk::take() {
  signalfd_siginfo info;
  for (;;) {
    const ssize_t got = read(fd_.get(), &info, sizeof info);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    const bool our_own_pipe =
        info.ssi_signo == SIGPIPE && info.ssi_pid == static_cast<std::uint32_t>(getpid());
    if (!our_own_pipe) return info;
  }
}

bool ends_waiting(int signal) {
  return signal != SIGCONT && signal != SIGWINCH && signal != SIGURG;
}

bool asks_to_end(int signal) {
  return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
}

std::optional<int> parse_signal(std::string_view text) {
  const bool digits = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const auto signal = digits ? parse_number(text) : parse_name(text);
  return signal && exists(*signal) ? signal : std::nullopt;
}

std::string signal_name(int signal) {
  if (signal >= SIGRTMIN && signal <= SIGRTMAX)
    return signal == SIGRTMIN ? "RTMIN" : "RTMIN+" + std::to_string(signal - SIGRTMIN);
  const char* name = exists(signal) ? sigabbrev_np(signal) : nullptr;
  return name != nullptr ? name : "signal " + std::to_string(signal);
}

void die_of(int signal) {
  if (is_ignored(signal)) return;
  // A core file would be of klock, which is not what anyone wants to look at; the limit is not enough where
  // core_pattern names a program.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal, SIG_DFL);
  const sigset_t its_own = only(signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &its_own, nullptr);
}

}  // namespace klock
