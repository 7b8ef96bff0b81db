// SPDX-License-Identifier: MIT
#pragma once

#include "util/clock.hpp"
#include "util/result.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace klock {

struct JobOptions {
  std::vector<std::string> argv;  // the command; not empty
  std::string program;            // argv[0] resolved (find_program)
  // A command that start() runs first, with /dev/null for its stdin; another start() then runs `argv`. All
  // that is said of the command holds for both. Empty: none.
  std::vector<std::string> check;
  std::string check_program;
  Duration kill_after{};         // between `stop_signal` and SIGKILL of a stop; 0: SIGKILL at once
  bool bound_forwarded = false;  // kill_after also bounds a forwarded TERM, INT, QUIT or HUP
  int stop_signal = SIGTERM;
  Duration max_hold{};           // 0: none. Counted from the first start()
  bool stop_at_deadline = true;  // false: --on-lost warn
  bool tree = false;             // every descendant counts (--tree), not only the command's group
  sigset_t original_mask{};      // what the command gets back: SignalDesk::original_mask()
  bool ignore_chld = false;      // SignalDesk::chld_was_ignored()
  bool tell_start = true;        // CommandStarted is an event; without it main sleeps on
  // Run by the guard once the command is dead, if main went first. `started`: the command was, not only its
  // check.
  std::function<void(bool started)> last_will;
};

inline constexpr std::size_t k_most_holds = 64;

// Why klock ended the command; `none` when it did not.
enum class StopCause : std::uint8_t { none, lost, forced, max_hold, deadline, main_gone, guard_gone };

struct CommandStarted {
  pid_t pid;
};
struct CommandNotStarted {
  int error;
};  // errno of the exec; the last event, and there will be no other start
struct CommandEnded {
  std::optional<int> wait_status;  // nullopt: it was not even started
  StopCause stopped;
};  // and all that had to die is dead; the last event of this start
using JobEvent = std::variant<CommandStarted, CommandNotStarted, CommandEnded>;

// The command under its guard: main's side.
//
// prepare() forks the guard, a tiny process that forks the command, waits for it and owns the deadline.
// Whoever of main and guard dies first, the other one stops the command's processes, so that the command
// never outlives the lease (law 2); stop, wait, release is the order in every case (law 3). Group rule: in
// the foreground group of a terminal the command stays in our group and a stop goes to the guard's
// descendants in that group; otherwise it gets a group of its own. Job control (a stop by TSTP, TTIN or TTOU,
// the terminal after `fg`) is done here and needs nothing of the caller but that it forwards CONT.
class Job {
 public:
  // Forks the guard; call it while the process has one thread. Signals must be blocked already (signals.hpp).
  // Makes this process a subreaper. Errors: system.
  static Result<std::unique_ptr<Job>> prepare(JobOptions options);

  // Closes the line to the guard and waits until it has ended. A command that still runs is stopped, and once
  // it is dead the guard runs last_will, as if this process had died; so too after a failed start().
  // Otherwise the guard just ends.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Tells the guard to run the command with `environment` (NAME=VALUE) added, dead by `deadline` unless
  // extended. The guard keeps copies of `hold_fds` (at most k_most_holds; -1: none) open as long as anything
  // of the command may live. If `deadline` is too near to run anything, the only event is
  // CommandEnded{nullopt, deadline}; if the guard has no room for the copies,
  // CommandNotStarted{EMFILE}. Does not block, but that in the foreground group of a terminal it waits
  // until the command's process is there (a second at most). Errors: system; nothing was started then.
  Status start(const std::vector<std::string>& environment, Instant deadline,
               const std::vector<int>& hold_fds);

  // Before start(): a stop takes no longer than that. The lease of a hold that we have joined may be shorter
  // than ours was to be.
  void bound_kill_after(Duration most);

  // Thread-safe, wait-free: the deadline after which nothing of the command may live.
  void extend(Instant deadline);

  // A signal that main received: passed to the command's group, unless the terminal sent it to that group
  // itself. Before start(): kept, and passed on right after it.
  void forward(const signalfd_siginfo& info);

  // Ends the command: stop signal, CONT, kill_after, KILL. The first cause stands.
  void stop(StopCause cause);

  // Someone may have frozen the guard, which hides the command's end: lets it run again.
  void thaw_guard() const;

  int event_fd() const;  // readable when next_event() has something to do
  // Does not block; nullopt: nothing yet. A dead guard is noticed here: the command's processes are then
  // stopped and waited for by this process (this blocks for at most kill_after and a bit), and CommandEnded
  // tells guard_gone.
  Result<std::optional<JobEvent>> next_event();

 private:
  struct Impl;
  explicit Job(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace klock
