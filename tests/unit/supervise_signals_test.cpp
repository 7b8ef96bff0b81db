// SPDX-License-Identifier: MIT
#include "supervise/signals.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace klock {
namespace {

// Runs `body` in a child, as the desk changes the whole process; returns the child's wait status.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Signals, NamesAreUnderstood) {
  EXPECT_EQ(parse_signal("TERM"), SIGTERM);
  EXPECT_EQ(parse_signal("SIGTERM"), SIGTERM);
  EXPECT_EQ(parse_signal("sigusr1"), SIGUSR1);
  EXPECT_EQ(parse_signal("15"), SIGTERM);
  EXPECT_EQ(parse_signal("64"), 64);
  EXPECT_EQ(parse_signal("RTMIN"), SIGRTMIN);
  EXPECT_EQ(parse_signal("RTMIN+2"), SIGRTMIN + 2);
  EXPECT_EQ(parse_signal("SIGRTMAX-1"), SIGRTMAX - 1);
  for (const char* wrong : {"", "SIG", "0", "65", "-9", "9x", "TERMS", "NOSUCH", "RTMIN-1", "RTMIN+99",
                            "RTMIN+", "32", "1e1", " 9"})
    EXPECT_EQ(parse_signal(wrong), std::nullopt) << wrong;
}

TEST(Signals, NamesComeBack) {
  EXPECT_EQ(signal_name(SIGTERM), "TERM");
  EXPECT_EQ(signal_name(SIGRTMIN + 1), "RTMIN+1");
  EXPECT_EQ(signal_name(99), "signal 99");
  for (int signal = 1; signal < 32; ++signal) EXPECT_EQ(parse_signal(signal_name(signal)), signal);
}

TEST(SignalDesk, ShowsWhatEndsAWaitFirstAndEverythingLater) {
  const int status = in_child([] {
    auto desk = SignalDesk::open();
    if (!desk) return 1;
    raise(SIGWINCH);
    raise(SIGCONT);
    if (desk->take()) return 2;
    raise(SIGTERM);
    const auto term = desk->take();
    if (!term || term->ssi_signo != SIGTERM || desk->take()) return 3;
    desk->watch_all();
    const auto one = desk->take();
    const auto two = desk->take();
    if (!one || !two || one->ssi_signo + two->ssi_signo != SIGWINCH + SIGCONT) return 4;
    return desk->take() ? 5 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(SignalDesk, LeavesIgnoredSignalsAndTheMaskAlone) {
  const int status = in_child([] {
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    sigset_t before;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    auto desk = SignalDesk::open();
    if (!desk) return 1;
    desk->watch_all();
    raise(SIGHUP);
    if (desk->take()) return 2;
    if (!desk->chld_was_ignored() || signal(SIGCHLD, SIG_DFL) != SIG_DFL) return 3;
    for (int number = 1; number < 32; ++number)
      if (sigismember(&desk->original_mask(), number) != (number == SIGUSR2)) return 4;
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, nullptr, &blocked);
    for (const int never : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD, SIGTSTP,
                            SIGTTIN, SIGTTOU, SIGHUP})
      if (sigismember(&blocked, never) != 0) return 5;
    return sigismember(&blocked, SIGRTMAX) == 1 ? 0 : 6;
  });
  EXPECT_EQ(status, 0);
}

TEST(SignalDesk, OurOwnBrokenPipeIsNobodysSignal) {
  const int status = in_child([] {
    auto desk = SignalDesk::open();
    if (!desk) return 1;
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return 2;
    close(ends[0]);
    if (write(ends[1], "x", 1) >= 0) return 3;
    pollfd ready{desk->fd(), POLLIN, 0};
    if (poll(&ready, 1, 0) != 1) return 4;
    return desk->take() ? 5 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(Signals, DiesOfASignalWithoutACore) {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    const int status = in_child([signal] {
      const auto desk = SignalDesk::open();
      die_of(signal);
      return desk ? 1 : 2;
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_FALSE(WCOREDUMP(status));
  }
}

TEST(Signals, DoesNotDieOfAnIgnoredSignal) {
  const int status = in_child([] {
    signal(SIGTERM, SIG_IGN);
    die_of(SIGTERM);
    return 7;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace klock
