// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"
#include "util/result.hpp"

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>
#include <string>
#include <string_view>

namespace klock {

// Blocks, before anything else happens, each signal that can be caught and forwarded and makes it readable
// from fd(). Not touched: the synchronous faults (SEGV, BUS, FPE, ILL, TRAP, SYS, ABRT), CHLD, TSTP,
// TTIN, TTOU, and whatever was ignored when klock was started (nohup): that stays ignored. SIGCHLD is set to
// its default (an inherited SIG_IGN would make wait(2) fail). The command gets the original mask and
// dispositions back. Call open() while the process has one thread. A signal that arrives once is taken once;
// for main only.
class SignalDesk {
 public:
  // At first only signals that end a wait (ends_waiting) show in fd(); the others stay pending until
  // watch_all(). Errors: system.
  static Result<SignalDesk> open();
  void watch_all();

  int fd() const { return fd_.get(); }
  // Does not block. A SIGPIPE of our own making (a message into a closed pipe) is dropped: nobody sent it.
  std::optional<signalfd_siginfo> take();

  // What the command must get back.
  const sigset_t& original_mask() const { return original_mask_; }
  bool chld_was_ignored() const { return chld_was_ignored_; }

 private:
  Fd fd_;
  sigset_t watched_{};
  sigset_t original_mask_{};
  bool chld_was_ignored_ = false;
};

// Whether `signal`'s arrival ends a wait for the lock (INT, TERM, HUP, QUIT, and others whose default is to
// end a process), as opposed to CONT, WINCH, URG and the like.
bool ends_waiting(int signal);

// HUP, INT, QUIT and TERM: whoever sends them wants the command to end.
bool asks_to_end(int signal);

// "TERM", "SIGTERM", "RTMIN+1" (in either case) or a number -> signal number; nullopt if there is no such
// signal.
std::optional<int> parse_signal(std::string_view text);
std::string signal_name(int signal);  // "TERM", "RTMIN+1"; "signal 99" if there is none

// Dies of `signal` as if klock had never caught it (no core file). Returns if the signal was ignored.
void die_of(int signal);

}  // namespace klock
