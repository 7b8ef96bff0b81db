// SPDX-License-Identifier: MIT
#include "supervise/terminal.hpp"

#include "util/fd.hpp"
#include "util/signal_set.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace klock {
namespace {

Fd open_terminal() {
  return Fd(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
}

}  // namespace

bool in_foreground() {
  const Fd terminal = open_terminal();
  return terminal && tcgetpgrp(terminal.get()) == getpgrp();
}

bool pass_terminal(pid_t from, pid_t to) {
  const Fd terminal = open_terminal();
  if (!terminal || tcgetpgrp(terminal.get()) != from) return false;
  // From a background group this raises SIGTTOU, which would suspend us instead.
  const Blocked blocked(only(SIGTTOU));
  return tcsetpgrp(terminal.get(), to) == 0;
}

bool suspend_like(int signal) {
  // A stop signal takes back any SIGCONT that is pending (also when it then has no effect), and SIGCONT is
  // blocked in main: so if one is pending afterwards, we were stopped and continued.
  kill(0, signal);
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGCONT) == 1;
}

}  // namespace klock
