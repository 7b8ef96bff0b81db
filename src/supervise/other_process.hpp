// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"
#include "util/result.hpp"

#include <sys/types.h>

#include <string>

namespace klock {

// A process that is not our child, by pidfd: another one that gets its number later is never taken for it.
class OtherProcess {
 public:
  // Errors: usage if there is none, else system.
  static Result<OtherProcess> open(pid_t pid);

  pid_t pid() const { return pid_; }
  int fd() const { return fd_.get(); }  // readable once it has ended
  bool has_ended() const;
  std::string program() const;  // its name, without its arguments; "" if unknown
  // A description of its own of what its standard error is open for; writing never blocks. Invalid: it may
  // not be had.
  Fd open_stderr() const;
  void send(int signal) const;  // best effort: it may be gone, or another user's

 private:
  OtherProcess(pid_t pid, Fd fd) : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_;
  Fd fd_;
};

// The shell that called us: our parent, or the shell that reads what we print if our parent is only its
// process for a `$(...)`. Errors: usage if it lives outside of this pid namespace, else system.
Result<OtherProcess> calling_shell();

}  // namespace klock
