// SPDX-License-Identifier: MIT
// The command is started, sees what it would see without klock, and its end is told as it was.
#include "supervise/job.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

namespace klock::test {
namespace {

using Words = std::vector<std::string>;
constexpr const char* k_driver = KLOCK_JOB_DRIVER;

TEST(Job, PassesOnEveryExitCode) {
  for (int code = 0; code < 256; ++code) {
    DrivenJob job(k_driver, {}, shell("exit " + std::to_string(code)));
    ASSERT_EQ(job.exit_code(), code);
    ASSERT_EQ(job.ended_status(), code << 8);
    ASSERT_EQ(job.ended_cause(), 0);
  }
}

TEST(Job, PassesOnDeathBySignal) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGABRT}) {
    DrivenJob job(k_driver, {}, shell("ulimit -c 0; kill -" + std::to_string(signal) + " $$"));
    const int status = job.wait();
    ASSERT_TRUE(WIFSIGNALED(status)) << signal;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_EQ(job.ended_status(), signal);
  }
}

TEST(Job, TellsWhyTheCommandCouldNotBeStarted) {
  DrivenJob gone(k_driver, {"exec=/no/such/program"}, {"true"});
  EXPECT_EQ(gone.exit_code(), 127);
  DrivenJob forbidden(k_driver, {"exec=/etc/passwd"}, {"true"});
  EXPECT_EQ(forbidden.exit_code(), 126);
  EXPECT_EQ(forbidden.ended_status(), std::nullopt);
}

TEST(Job, RunsAScriptWithoutInterpreterLine) {
  ScratchDirectory scratch;
  const std::string script = scratch.file("script");
  std::ofstream(script) << "test \"$1-$2\" = 'a b-' && exit 42\n";
  chmod(script.c_str(), 0755);
  DrivenJob job(k_driver, {}, {script, "a b", ""});
  EXPECT_EQ(job.exit_code(), 42);
}

TEST(Job, ArgumentsArriveByteForByte) {
  DrivenJob job(
      k_driver, {},
      {"/bin/sh", "-c", "printf '%s|' \"$@\" > \"$0\"", "@/out", "a b", "", "-v", "--", "x\ny", "\xff'\"$"});
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(slurp(job.out("out")), "a b||-v|--|x\ny|\xff'\"$|");
}

TEST(Job, EnvironmentIsAddedAndReplacesTheSameName) {
  DrivenJob job(k_driver, {"env=KLOCK_NAME=new one", "env=KLOCK_TOKEN=t"}, shell("env > $1", "@/out"), [] {
    setenv("KLOCK_NAME", "old", 1);
    setenv("KLOCK_NAMES", "kept", 1);
  });
  EXPECT_EQ(job.exit_code(), 0);
  std::vector<std::string> mine;
  for (const auto& line : lines_of(job.out("out")))
    if (line.rfind("KLOCK_NAME", 0) == 0 || line.rfind("KLOCK_TOKEN", 0) == 0) mine.push_back(line);
  std::sort(mine.begin(), mine.end());
  EXPECT_EQ(mine, (Words{"KLOCK_NAME=new one", "KLOCK_NAMES=kept", "KLOCK_TOKEN=t"}));
}

TEST(Job, RefusesAnEnvironmentThatDoesNotFit) {
  DrivenJob job(k_driver, {"env=KLOCK_NAME=" + std::string(40'000, 'x'), "will=@/will"}, {"true"});
  EXPECT_EQ(job.exit_code(), 71);
  EXPECT_EQ(slurp(job.out("will")), "will\n");
}

// ls writes what it has open to `file`; the last one of its own is the directory it reads.
void list_descriptors_in(const std::string& file) {
  dup2(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDOUT_FILENO);
}

TEST(Job, TheCommandInheritsNoDescriptorOfOurs) {
  ScratchDirectory scratch;
  DrivenJob job(k_driver, {"hold=@/hold", "lease=5000"}, {"ls", "/proc/self/fd"},
                [&] { list_descriptors_in(scratch.file("out")); });
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(lines_of(scratch.file("out")), (Words{"0", "1", "2", "3"}));
}

TEST(Job, TheCommandKeepsTheDescriptorsOfOurCaller) {
  ScratchDirectory scratch;
  DrivenJob job(k_driver, {"hold=@/hold", "lease=5000"}, {"ls", "/proc/self/fd"}, [&] {
    list_descriptors_in(scratch.file("out"));
    dup2(STDERR_FILENO, 3);
    dup2(STDERR_FILENO, 9);
  });
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(lines_of(scratch.file("out")), (Words{"0", "1", "2", "3", "4", "9"}));
}

TEST(Job, WorksWithoutStandardDescriptors) {
  DrivenJob job(k_driver, {"lease=5000"},
                {"/bin/sh", "-c", "readlink /proc/$$/fd/* > $1; exit 3", "sh", "@/out"}, [] {
                  for (int fd = 0; fd < 3; ++fd) close(fd);
                });
  EXPECT_EQ(job.exit_code(), 3);
  for (const auto& line : lines_of(job.out("out"))) EXPECT_EQ(line.find("socket"), std::string::npos) << line;
}

// The lines of /proc/self/status that must be what klock was started with.
Words signal_lines(const std::string& file) {
  Words lines;
  for (const auto& line : lines_of(file))
    if (line.rfind("SigBlk", 0) == 0 || line.rfind("SigIgn", 0) == 0) lines.push_back(line);
  return lines;
}

TEST(Job, MaskAndIgnoredSignalsAreThoseOfOurCaller) {
  const auto odd = [] {
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGRTMIN + 3, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int number : {SIGUSR2, SIGTERM, SIGTTOU}) sigaddset(&blocked, number);
    sigprocmask(SIG_SETMASK, &blocked, nullptr);
  };
  for (const auto& state : {std::function<void()>([] {}), std::function<void()>(odd)}) {
    ScratchDirectory scratch;
    const pid_t bare = fork();
    if (bare == 0) {
      state();
      const std::string out = scratch.file("bare");
      dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      execlp("cat", "cat", "/proc/self/status", nullptr);
      _exit(99);
    }
    waitpid(bare, nullptr, 0);
    DrivenJob job(k_driver, {}, {"cp", "/proc/self/status", "@/out"}, state);
    EXPECT_EQ(job.exit_code(), 0);
    const Words expected = signal_lines(scratch.file("bare"));
    ASSERT_EQ(expected.size(), 2U);
    EXPECT_EQ(signal_lines(job.out("out")), expected);
  }
}

TEST(Job, LimitsAreUntouched) {
  DrivenJob job(k_driver, {}, shell("ulimit -n > $1; ulimit -c >> $1", "@/out"), [] {
    const rlimit files{123, 456};
    const rlimit core{0, 0};
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CORE, &core);
  });
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(slurp(job.out("out")), "123\n0\n");
}

TEST(Job, HasAGroupOfItsOwnWithoutATerminal) {
  DrivenJob job(k_driver, {}, {"sleep", "60"}, [] { setsid(); });
  EXPECT_EQ(getpgid(job.command()), job.command());
  EXPECT_NE(getpgid(job.guard()), getpgid(job.main()));
  job.signal(SIGTERM);
  job.wait();
}

constexpr const char* k_count_signals =
    "for s in 1 2 3 10 12 14 15 18 23 28 34 40 64; do trap \"echo $s >> $1\" $s; done; trap 'exit 0' 13; "
    "echo ready >> $1; while :; do sleep 0.01; done";

TEST(Job, EachSignalIsForwardedExactlyOnce) {
  DrivenJob job(k_driver, {"kill_after=2000"}, {"/bin/bash", "-c", k_count_signals, "sh", "@/out"});
  const std::string out = job.out("out");
  ASSERT_TRUE(eventually([&] { return slurp(out) == "ready\n"; }));
  std::string expected = "ready\n";
  for (const int signal : {1, 2, 3, 10, 12, 14, 15, 18, 23, 28, 34, 40, 64}) {
    job.signal(signal);
    expected += std::to_string(signal) + "\n";
    ASSERT_TRUE(eventually([&] { return slurp(out).size() >= expected.size(); })) << signal;
  }
  job.signal(SIGPIPE);
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(slurp(out), expected);
}

TEST(Job, ASignalBeforeTheStartReachesTheCommand) {
  DrivenJob job(k_driver, {"start_after=300"}, {"sleep", "60"});
  job.guard();
  job.signal(SIGUSR1);
  const int status = job.wait(5000);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGUSR1);
}

TEST(Job, BackgroundProcessesAreLeftAloneOnANormalEnd) {
  DrivenJob job(k_driver, {"kill_after=100"}, shell("sleep 60 & echo $! > $1", "@/out"));
  EXPECT_EQ(job.exit_code(2000), 0);
  const pid_t left = std::stoi(slurp(job.out("out")));
  EXPECT_TRUE(lives(left));
  EXPECT_FALSE(eventually([&] { return !lives(left); }, 300));
}

TEST(Job, ThePipeOfTheCommandEndsWithTheCommand) {
  // klock's own descriptors must not keep a reader waiting: main has the pipe until it ends, the guard has
  // not.
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  DrivenJob job(k_driver, {}, {"sleep", "60"}, [&] {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], 7);
  });
  close(ends[1]);
  job.command();
  const pid_t guard = job.guard();
  const std::string pipe = "/proc/" + std::to_string(guard) + "/fd/";
  EXPECT_TRUE(eventually([&] {
    std::array<char, 64> target{};
    if (readlink((pipe + "1").c_str(), target.data(), target.size() - 1) < 0) return false;
    return std::string(target.data()) == "/dev/null" && access((pipe + "7").c_str(), F_OK) != 0;
  }));
  close(ends[0]);
}

TEST(Job, TreeWaitsForTheLastDescendant) {
  DrivenJob job(k_driver, {"tree=1"}, shell("(setsid sleep 0.4; echo done > $1) & exit 5", "@/out"));
  EXPECT_EQ(job.exit_code(), 5);
  EXPECT_EQ(slurp(job.out("out")), "done\n");
}

TEST(Job, AnUnusedJobEndsItsGuardWithoutLastWill) {
  DrivenJob job(k_driver, {"start_after=60000", "drop=50", "will=@/will"}, {"true"});
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(slurp(job.out("will")), "");
}

}  // namespace
}  // namespace klock::test
