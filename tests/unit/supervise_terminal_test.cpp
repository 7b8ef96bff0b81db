// SPDX-License-Identifier: MIT
// Under a terminal, as a user or a script sees it.
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

namespace klock::test {
namespace {

// A shell on a terminal of its own. `typed` text goes to it as from a keyboard.
class TerminalSession {
 public:
  // Interactive (with job control) or not: then `script` runs in the foreground, as from a user's prompt.
  explicit TerminalSession(const std::string& script) {
    shell_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (shell_ != 0) return;
    close_range(3, ~0U, 0);
    setenv("PS1", "$ ", 1);
    setenv("D", KLOCK_JOB_DRIVER, 1);
    if (script.empty())
      execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", nullptr);
    else
      execlp("sh", "sh", "-c", script.c_str(), nullptr);
    _exit(99);
  }
  ~TerminalSession() {
    kill(shell_, SIGKILL);
    waitpid(shell_, nullptr, 0);
    hang_up();
  }
  void hang_up() {
    if (terminal_ >= 0) close(terminal_);
    terminal_ = -1;
  }
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  void type(const std::string& text) {
    EXPECT_EQ(write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // Waits until `text` appears after what was waited for before.
  bool shows(const std::string& text, int limit_ms = 10'000) {
    const bool seen =
        eventually([&] { return read_on(), screen_.find(text, seen_to_) != std::string::npos; }, limit_ms);
    if (seen) seen_to_ = screen_.find(text, seen_to_) + text.size();
    if (!seen) last_ = screen_.substr(seen_to_);
    return seen;
  }
  const std::string& instead() const { return last_; }
  pid_t foreground() const { return tcgetpgrp(terminal_); }
  pid_t shell() const { return shell_; }

 private:
  void read_on() {
    pollfd ready{terminal_, POLLIN, 0};
    while (poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
      char text[4096];
      const ssize_t size = read(terminal_, text, sizeof text);
      if (size <= 0) return;
      screen_.append(text, static_cast<std::size_t>(size));
    }
  }

  int terminal_ = -1;
  pid_t shell_ = -1;
  std::string screen_;
  std::string last_;
  std::size_t seen_to_ = 0;
};

// `pid` and all its descendants.
std::vector<pid_t> family_of(pid_t pid) {
  std::vector<pid_t> members{pid};
  for (std::size_t at = 0; at < members.size(); ++at)
    for (const pid_t child : children_of(members[at])) members.push_back(child);
  return members;
}

#define EXPECT_SHOWS(session, text) EXPECT_TRUE((session).shows(text)) << "instead: " << (session).instead()

TEST(Terminal, CtrlCArrivesOnce) {
  ScratchDirectory scratch;
  const std::string out = scratch.file("out");
  // The script that calls klock is in the same group.
  TerminalSession session("trap : INT; $D -- /bin/bash -c 'trap \"echo interrupted >> " + out +
                          "\" INT; trap \"exit 4\" USR1; echo $$ > " + out +
                          "; while :; do sleep 0.02; done'; echo status $?");
  ASSERT_TRUE(eventually([&] { return lines_of(out).size() == 1; }));
  session.type("\x03");
  ASSERT_TRUE(eventually([&] { return lines_of(out).size() >= 2; }));
  EXPECT_FALSE(eventually([&] { return lines_of(out).size() > 2; }, 300));
  kill(std::stoi(slurp(out)), SIGUSR1);
  EXPECT_SHOWS(session, "status 4");
}

TEST(Terminal, CtrlCEndsTheCommandAndTheStatusSaysSo) {
  TerminalSession session("trap : INT; $D -- sh -c 'echo here; exec sleep 60'; echo status $?");
  EXPECT_SHOWS(session, "here");
  session.type("\x03");
  EXPECT_SHOWS(session, "status 130");
}

TEST(Terminal, TheCommandReadsTheTerminal) {
  TerminalSession session("$D -- cat; echo status $?");
  session.type("hello\n");
  EXPECT_SHOWS(session, "hello");
  EXPECT_SHOWS(session, "hello");  // once from the terminal, once from cat
  session.type("\x04");
  EXPECT_SHOWS(session, "status 0");
}

TEST(Terminal, AStopSparesTheCallingScript) {
  TerminalSession session(
      "sleep 60 & $D stop=300 kill_after=200 -- sh -c 'trap \"\" TERM; sh -c \"echo in; sleep 60; :\"; :'; "
      "echo status $?; "
      "kill -0 $! && echo sleeper lives");
  EXPECT_SHOWS(session, "in");
  EXPECT_SHOWS(session, "status 79");
  EXPECT_SHOWS(session, "sleeper lives");
}

TEST(Terminal, ATermByKillReachesTheCommandOnce) {
  TerminalSession session(
      "$D -- /bin/bash -c 'trap \"echo got term\" TERM; trap \"exit 9\" USR1; echo ready; while :; do sleep "
      "0.02; done' & "
      "wait; echo");
  // In the background of a script without job control the group is the foreground group all the same.
  EXPECT_SHOWS(session, "ready");
  pid_t driver = 0;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t child : children_of(session.shell()))
      if (name_of(child) == "job_driver") driver = child;
    return driver != 0;
  }));
  kill(driver, SIGTERM);
  EXPECT_SHOWS(session, "got term");
  kill(driver, SIGUSR1);
  EXPECT_FALSE(session.shows("got term", 300));
  EXPECT_TRUE(eventually([&] { return children_of(session.shell()).empty(); }));
}

TEST(Terminal, MainKilledInTheForegroundTakesTheCommandAlong) {
  TerminalSession session(
      "$D kill_after=200 -- sh -c 'trap \"\" TERM; sh -c \"echo here; sleep 77; :\"; :'; echo status $?; "
      "sleep 60");
  EXPECT_SHOWS(session, "here");
  pid_t driver = 0;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t child : children_of(session.shell()))
      if (name_of(child) == "job_driver") driver = child;
    return driver != 0;
  }));
  std::vector<pid_t> members;
  ASSERT_TRUE(eventually(
      [&] { return (members = family_of(driver)).size() >= 5; }));  // driver, guard, two shells, sleep
  kill(driver, SIGKILL);
  EXPECT_SHOWS(session, "status 137");
  EXPECT_TRUE(eventually(
      [&] {
        for (const pid_t pid : members)
          if (lives(pid)) return false;
        return true;
      },
      3000));
  EXPECT_TRUE(lives(session.shell()));
}

TEST(Terminal, GuardKilledInTheForeground) {
  TerminalSession session(
      "$D kill_after=200 -- sh -c 'trap \"\" TERM; sh -c \"echo here; sleep 77; :\"; :'; echo status $?; "
      "sleep 60");
  EXPECT_SHOWS(session, "here");
  pid_t guard = 0;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t child : children_of(session.shell()))
      for (const pid_t grandchild : children_of(child))
        if (name_of(grandchild) == "lock-guard") guard = grandchild;
    return guard != 0;
  }));
  std::vector<pid_t> members;
  ASSERT_TRUE(eventually([&] { return (members = family_of(guard)).size() >= 4; }));
  kill(guard, SIGKILL);
  EXPECT_SHOWS(session, "status 79");
  for (const pid_t pid : members) EXPECT_FALSE(lives(pid));
}

bool runs(const TerminalSession& session, const std::string& program, const std::string& states = "RS") {
  const auto family = family_of(session.shell());
  return std::any_of(family.begin(), family.end(), [&](pid_t pid) {
    return name_of(pid) == program && states.find(state_of(pid)) != std::string::npos;
  });
}

// `$D -- cat` is in the foreground.
void expect_suspended_and_resumed(TerminalSession& session) {
  session.type("\x1a");
  EXPECT_SHOWS(session, "Stopped");
  // The shell waits for klock alone. A cat that has not stopped yet would read what is typed next.
  EXPECT_TRUE(eventually([&] { return runs(session, "cat", "T"); }));
  session.type("fg\n");
  EXPECT_SHOWS(session, "fg\r\n$D -- cat");
  session.type("two\n");
  EXPECT_SHOWS(session, "two\r\ntwo");
  session.type("\x04");
  EXPECT_SHOWS(session, "$ ");
  session.type("echo status $?\n");
  EXPECT_SHOWS(session, "status 0");
}

TEST(Terminal, CtrlZAndFg) {
  TerminalSession session("");
  EXPECT_SHOWS(session, "$ ");
  session.type("$D -- cat\n");
  EXPECT_SHOWS(session, "cat");
  session.type("one\n");
  EXPECT_SHOWS(session, "one\r\none");
  expect_suspended_and_resumed(session);
}

TEST(Terminal, StartedInTheBackgroundAndBroughtToTheFront) {
  TerminalSession session("");
  EXPECT_SHOWS(session, "$ ");
  session.type("$D -- cat &\n");
  EXPECT_SHOWS(session, "$ ");
  // cat wants to read: the whole job shows as stopped, as it would without klock.
  EXPECT_TRUE(eventually([&] {
    session.type("\n");
    return session.shows("Stopped", 100);
  }));
  session.type("fg\n");
  EXPECT_SHOWS(session, "fg\r\n$D -- cat");
  session.type("one\n");
  EXPECT_SHOWS(session, "one\r\none");
  // The terminal is the command's group's now; Ctrl-Z must suspend the whole job again, and fg resume it.
  expect_suspended_and_resumed(session);
}

TEST(Terminal, ABackgroundJobInterruptedAfterFg) {
  TerminalSession session("");
  EXPECT_SHOWS(session, "$ ");
  session.type("$D -- sleep 60 &\n");
  EXPECT_SHOWS(session, "$ ");
  // Before that an interrupt meets the shell's own child, which may take it for the shell's.
  EXPECT_TRUE(eventually([&] { return runs(session, "sleep"); }));
  session.type("fg\n");
  EXPECT_SHOWS(session, "sleep 60");
  ASSERT_TRUE(eventually([&] { return session.foreground() != session.shell(); }));
  session.type("\x03");
  EXPECT_SHOWS(session, "$ ");
  session.type("echo status $?\n");
  EXPECT_SHOWS(session, "status 130");
}

TEST(Terminal, AnOrphanedBackgroundReaderIsNotStuck) {
  // The shell that could continue it has gone: without klock, cat would get an error from its read.
  TerminalSession session("");
  EXPECT_SHOWS(session, "$ ");
  ScratchDirectory scratch;
  session.type("(sh -c '$D -- cat; echo over > " + scratch.file("over") + "' &)\n");
  EXPECT_TRUE(eventually([&] { return slurp(scratch.file("over")) == "over\n"; }));
}

TEST(Terminal, AHangUpReachesTheCommandOfASessionLeader) {
  ScratchDirectory scratch;
  const std::string out = scratch.file("out");
  auto session = std::make_unique<TerminalSession>(
      "exec $D report=" + scratch.file("report") + " -- /bin/bash -c 'trap \"echo hup >> " + out +
      "; exit 0\" HUP; echo ready > " + out + "; while :; do sleep 0.02; done'");
  ASSERT_TRUE(eventually([&] { return slurp(out) == "ready\n"; }));
  session->hang_up();
  EXPECT_TRUE(eventually([&] { return slurp(out) == "ready\nhup\n"; }));
  EXPECT_TRUE(
      eventually([&] { return slurp(scratch.file("report")).find("ended 0 0") != std::string::npos; }));
}

TEST(Terminal, BackgroundProcessesSurviveANormalEnd) {
  ScratchDirectory scratch;
  TerminalSession session("$D -- sh -c 'sleep 60 & echo $! > " + scratch.file("pid") +
                          "'; echo status $?; sleep 60");
  EXPECT_SHOWS(session, "status 0");
  EXPECT_TRUE(lives(std::stoi(slurp(scratch.file("pid")))));
}

}  // namespace
}  // namespace klock::test
