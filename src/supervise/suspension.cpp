// SPDX-License-Identifier: MIT
#include "supervise/suspension.hpp"

#include "supervise/terminal.hpp"
#include "util/signal_set.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace klock {
Result<Suspension> Suspension::open() {
  Suspension suspension;
  struct sigaction action {};
  if (sigaction(SIGTSTP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return suspension;
  const sigset_t tstp = only(SIGTSTP);
  suspension.fd_.reset(signalfd(-1, &tstp, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!suspension.fd_) return system_failure("cannot watch signals", errno);
  sigprocmask(SIG_BLOCK, &tstp, nullptr);
  return suspension;
}

Suspension::~Suspension() {
  const sigset_t tstp = only(SIGTSTP);
  if (fd_) sigprocmask(SIG_UNBLOCK, &tstp, nullptr);
}

bool Suspension::take() {
  signalfd_siginfo info;
  return fd_ && read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

void Suspension::stop() {
  const sigset_t tstp = only(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &tstp, nullptr);
  suspend_like(SIGTSTP);
  sigprocmask(SIG_BLOCK, &tstp, nullptr);
}

}  // namespace klock
