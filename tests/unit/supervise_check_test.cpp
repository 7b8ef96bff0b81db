// SPDX-License-Identifier: MIT
// A check that runs before the command, under the same guard.
#include "supervise/job.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace klock::test {
namespace {

constexpr const char* k_driver = KLOCK_JOB_DRIVER;

int cause(StopCause stop) {
  return static_cast<int>(stop);
}

TEST(Check, RunsFirstAndTheCommandAfterIt) {
  DrivenJob job(k_driver, {"check=touch @/checked; exit 1"}, shell("test -e $1 && exit 5", "@/checked"));
  EXPECT_EQ(job.exit_code(), 5);
}

TEST(Check, ReadsNothingAndLeavesTheInputToTheCommand) {
  ScratchDirectory scratch;
  const std::string input = scratch.file("in");
  const std::string seen = scratch.file("seen");
  DrivenJob job(k_driver, {"check=wc -c > " + seen + "; exit 1"}, shell("cat > $1", scratch.file("out")),
                [&] {
                  const int fd = open(input.c_str(), O_RDWR | O_CREAT, 0600);
                  if (write(fd, "hello\n", 6) != 6 || lseek(fd, 0, SEEK_SET) != 0) _exit(99);
                  dup2(fd, STDIN_FILENO);
                  close(fd);
                });
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(slurp(seen), "0\n");
  EXPECT_EQ(slurp(scratch.file("out")), "hello\n");
}

TEST(Check, AKilledMainTakesItAlongAndReleasesOnce) {
  ScratchDirectory scratch;
  const std::string pid = scratch.file("pid");
  DrivenJob job(k_driver,
                {"check=echo $$ > " + pid + "; trap '' TERM; while :; do sleep 1; done", "kill_after=300",
                 "will=@/will", "started=@/started"},
                shell("echo ran > $1", "@/ran"));
  ASSERT_TRUE(eventually([&] { return !slurp(pid).empty(); }));
  const pid_t check = std::stoi(slurp(pid));
  job.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !slurp(job.out("will")).empty() || !lives(check); }));
  EXPECT_TRUE(slurp(job.out("will")).empty() || !lives(check)) << "released while the check lives";
  EXPECT_TRUE(eventually([&] { return slurp(job.out("will")) == "will\n"; }));
  EXPECT_EQ(slurp(job.out("started")), "");
  EXPECT_EQ(slurp(job.out("ran")), "");
}

TEST(Check, AMainKilledBetweenCheckAndCommandReleases) {
  DrivenJob job(k_driver, {"check=exit 1", "pause=60000", "will=@/will", "started=@/started"},
                shell("echo ran > $1", "@/ran"));
  ASSERT_TRUE(eventually([&] { return job.ended_status().has_value(); }));
  job.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return slurp(job.out("will")) == "will\n"; }));
  EXPECT_EQ(slurp(job.out("started")), "");
  EXPECT_EQ(slurp(job.out("ran")), "");
}

TEST(Check, TheGuardKeepsTheHoldFromItsStartToTheCommandsEnd) {
  ScratchDirectory scratch;
  const std::string seen = scratch.file("seen");
  DrivenJob job(k_driver, {"check=ls -l /proc/$PPID/fd > " + seen + "; exit 1", "pause=100", "hold=@/hold"},
                shell("ls -l /proc/$PPID/fd > $1", "@/seen"));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_NE(slurp(seen).find("/hold\n"), std::string::npos);
  EXPECT_NE(slurp(job.out("seen")).find("/hold\n"), std::string::npos);
}

TEST(Check, MaxHoldCountsFromTheCheck) {
  DrivenJob job(k_driver, {"check=sleep 3; exit 1", "max_hold=4000", "kill_after=100"}, shell("sleep 60"));
  const auto begun = BootClock::now();
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_LT(BootClock::now() - begun, std::chrono::milliseconds(6500));
}

TEST(Check, IsStoppedAtTheDeadline) {
  DrivenJob job(k_driver, {"check=sleep 60", "lease=500", "kill_after=100"}, shell("echo ran > $1", "@/ran"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::deadline));
  EXPECT_EQ(slurp(job.out("ran")), "");
}

}  // namespace
}  // namespace klock::test
