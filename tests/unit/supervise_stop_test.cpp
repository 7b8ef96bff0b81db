// SPDX-License-Identifier: MIT
// Stop, wait, release: who dies when, and what has to wait for it.
#include "supervise/job.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace klock::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* k_driver = KLOCK_JOB_DRIVER;

int cause(StopCause stop) {
  return static_cast<int>(stop);
}
long ms_since(Clock::time_point begun) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count();
}

// Waits for `count` pids in `file`.
std::vector<pid_t> pids_in(const std::string& file, std::size_t count) {
  EXPECT_TRUE(eventually([&] { return lines_of(file).size() >= count; }));
  std::vector<pid_t> pids;
  for (const auto& line : lines_of(file)) pids.push_back(std::stoi(line));
  return pids;
}

bool any_lives(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids)
    if (lives(pid)) return true;
  return false;
}

// A command of three generations that ignores TERM; each writes its pid.
constexpr const char* k_stubborn =
    "trap '' TERM; echo $$ >> $1; sh -c 'echo $$ >> $1; sh -c \"echo \\$\\$ >> $1; sleep 60; :\" sh $1; :' "
    "sh $1; :";

TEST(Stop, ReachesATermIgnoringGrandchild) {
  DrivenJob job(k_driver, {"stop=300", "kill_after=300"}, shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_FALSE(any_lives(pids));
  EXPECT_EQ(job.ended_cause(), cause(StopCause::forced));
  EXPECT_EQ(job.ended_status(), SIGKILL);
}

TEST(Stop, GivesTimeToCleanUp) {
  DrivenJob job(k_driver, {"stop=200", "kill_after=5000"},
                shell("trap 'sleep 0.3; echo clean > $1; exit 3' TERM; sleep 60 & wait", "@/out"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(slurp(job.out("out")), "clean\n");
  EXPECT_EQ(job.ended_status(), 3 << 8);
}

TEST(Stop, SendsTheChosenSignal) {
  DrivenJob job(
      k_driver, {"stop=200", "kill_after=5000", "signal=10"},
      shell("trap 'echo usr1 > $1; exit 0' USR1; trap '' TERM; while :; do sleep 0.01; done", "@/out"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(slurp(job.out("out")), "usr1\n");
}

TEST(Stop, WithoutGraceKillsAtOnce) {
  DrivenJob job(k_driver, {"stop=200", "kill_after=0"},
                shell("trap 'echo term > $1' TERM; sleep 60", "@/out"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_status(), SIGKILL);
  EXPECT_EQ(slurp(job.out("out")), "");
}

TEST(Stop, WakesASuspendedCommand) {
  DrivenJob job(k_driver, {"stop=300", "kill_after=5000"}, {"sleep", "60"});
  kill(job.command(), SIGSTOP);
  EXPECT_EQ(job.exit_code(3000), 79);
  EXPECT_EQ(job.ended_status(), SIGTERM);
}

TEST(Stop, TheLeaderMayGoBeforeItsGroup) {
  DrivenJob job(
      k_driver, {"stop=300", "kill_after=500"},
      shell("(trap '' TERM; echo ready >> $1; sleep 60; :) & echo $! >> $1; trap 'exit 0' TERM; wait",
            "@/pids"));
  const auto began = Clock::now();
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_GE(ms_since(began), 700);
  for (const auto& line : lines_of(job.out("pids"))) EXPECT_TRUE(line == "ready" || !lives(std::stoi(line)));
  EXPECT_EQ(job.ended_status(), 0);
}

TEST(Stop, LeavesAloneWhatLeftTheGroup) {
  DrivenJob job(k_driver, {"stop=400", "kill_after=100"},
                shell("setsid sleep 60 & sleep 60 & echo $! > $1; sleep 60", "@/pids"));
  const auto inside = pids_in(job.out("pids"), 1);
  pid_t daemon = 0;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t pid : children_of(job.command()))
      if (getsid(pid) == pid) daemon = pid;
    return daemon != 0;
  }));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_FALSE(any_lives(inside));
  EXPECT_TRUE(lives(daemon));
}

TEST(Stop, TreeReachesWhatLeftTheGroupToo) {
  DrivenJob job(k_driver, {"stop=400", "kill_after=200", "tree=1"},
                shell("setsid sh -c 'trap \"\" TERM; echo $$ > $1; sleep 60; :' sh $1 & sleep 60", "@/pids"));
  const auto daemon = pids_in(job.out("pids"), 1);
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_FALSE(any_lives(daemon));
}

TEST(Stop, MaxHold) {
  DrivenJob job(k_driver, {"max_hold=300", "kill_after=100"}, shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::max_hold));
  EXPECT_FALSE(any_lives(pids));
}

TEST(Deadline, StopsWithTermFirstAndIsDeadBeforeIt) {
  DrivenJob job(k_driver, {"lease=1500", "kill_after=500"},
                shell("trap 'echo term >> $1' TERM; while :; do sleep 0.01; done", "@/term"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::deadline));
  EXPECT_EQ(slurp(job.out("term")), "term\n");
  EXPECT_GE(job.ended_before_deadline_ms(), 0);
  EXPECT_LE(job.ended_before_deadline_ms(), 110);
}

TEST(Deadline, AWillingCommandGoesAtTheFirstWord) {
  DrivenJob job(k_driver, {"lease=1500", "kill_after=500"}, {"sleep", "60"});
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_status(), SIGTERM);
  EXPECT_GE(job.ended_before_deadline_ms(), 110);
  EXPECT_LE(job.ended_before_deadline_ms(), 500);
}

TEST(Deadline, HoldsThoughMainIsFrozen) {
  const auto began = Clock::now();
  DrivenJob job(k_driver, {"lease=1000", "renew=1", "kill_after=200"}, shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  kill(job.main(), SIGSTOP);
  EXPECT_TRUE(eventually([&] { return !any_lives(pids); }, 3000));
  EXPECT_LT(ms_since(began),
            1500 * slow_factor());  // frozen at most 400 ms after the start, and then one lease
  kill(job.main(), SIGCONT);
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::deadline));
}

TEST(Deadline, MovesWhenExtended) {
  DrivenJob job(k_driver, {"lease=300", "renew=1", "kill_after=100"}, shell("sleep 1.2; exit 4"));
  EXPECT_EQ(job.exit_code(), 4);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::none));
}

TEST(Deadline, OnlyWarnsWhenToldSo) {
  DrivenJob job(k_driver, {"lease=200", "warn=1"}, shell("sleep 0.6; exit 4"));
  EXPECT_EQ(job.exit_code(), 4);
}

TEST(Deadline, NothingIsStartedAfterIt) {
  DrivenJob job(k_driver, {"lease=5", "kill_after=0"}, shell("touch $1", "@/ran"));
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_EQ(job.ended_status(), -1);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::deadline));
  EXPECT_NE(access(job.out("ran").c_str(), F_OK), 0);
}

TEST(MainGone, TheGroupDiesAndThenTheLastWillIsDone) {
  DrivenJob job(k_driver, {"kill_after=200", "will=@/will", "started=@/started", "hold=@/hold"},
                shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  const std::string will = job.out("will");
  kill(job.main(), SIGKILL);
  job.wait();
  ASSERT_TRUE(eventually([&] {
    const bool done = slurp(will) == "will\n";
    EXPECT_TRUE(!done || !any_lives(pids));
    return done;
  }));
  EXPECT_EQ(slurp(job.out("started")), "started\n");
}

TEST(MainGone, AWaitingGuardDoesTheLastWillAtOnce) {
  DrivenJob job(k_driver, {"start_after=60000", "kill_after=5000", "will=@/will", "started=@/started"},
                {"true"});
  const pid_t guard = job.guard();
  kill(job.main(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return slurp(job.out("will")) == "will\n" && !lives(guard); }, 1000));
  EXPECT_EQ(slurp(job.out("started")), "");
}

TEST(MainGone, TheHoldIsKeptUntilTheCommandIsDead) {
  DrivenJob job(k_driver, {"kill_after=600", "hold=@/hold"}, shell(k_stubborn, "@/pids"), [] {});
  const auto pids = pids_in(job.out("pids"), 3);
  // Who has the file open? The guard's copy is what keeps a kernel lock.
  const pid_t guard = job.guard();
  const auto guard_has_it = [&] {
    for (int fd = 3; fd < 10; ++fd) {
      char target[256] = {};
      const std::string link = "/proc/" + std::to_string(guard) + "/fd/" + std::to_string(fd);
      if (readlink(link.c_str(), target, sizeof target - 1) > 0 && job.out("hold") == target) return true;
    }
    return false;
  };
  EXPECT_TRUE(guard_has_it());
  kill(job.main(), SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const bool living = any_lives(pids);
    if (living && lives(guard)) return false;
    EXPECT_FALSE(living);
    return true;
  }));
  EXPECT_TRUE(eventually([&] { return !guard_has_it(); }));
}

TEST(MainGone, DroppingAJobStopsItAndDoesTheLastWill) {
  DrivenJob job(k_driver, {"drop=300", "kill_after=100", "will=@/will"}, shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_FALSE(any_lives(pids));
  EXPECT_EQ(slurp(job.out("will")), "will\n");
}

TEST(GuardGone, MainStopsTheGroup) {
  DrivenJob job(k_driver, {"kill_after=300", "will=@/will"}, shell(k_stubborn, "@/pids"));
  const auto pids = pids_in(job.out("pids"), 3);
  kill(job.guard(), SIGKILL);
  EXPECT_EQ(job.exit_code(), 79);
  EXPECT_FALSE(any_lives(pids));
  EXPECT_EQ(job.ended_cause(), cause(StopCause::guard_gone));
  EXPECT_EQ(slurp(job.out("will")), "");
}

TEST(GuardGone, BeforeTheStartItIsASystemError) {
  DrivenJob job(k_driver, {"start_after=60000"}, {"true"});
  kill(job.guard(), SIGKILL);
  EXPECT_EQ(job.exit_code(3000), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::guard_gone));
}

TEST(GuardGone, WhenBothAreKilledTheCommandGoesToo) {
  DrivenJob job(k_driver, {"kill_after=5000"}, {"sleep", "60"});
  const pid_t command = job.command();
  const pid_t guard = job.guard();
  kill(job.main(), SIGSTOP);
  kill(guard, SIGKILL);
  kill(job.main(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !lives(command); }, 1000));
}

TEST(Guard, OutlivesWhatHitsTheWholeGroup) {
  DrivenJob job(k_driver, {"kill_after=100", "will=@/will"}, shell(k_stubborn, "@/pids"),
                [] { setpgid(0, 0); });
  const auto pids = pids_in(job.out("pids"), 3);
  kill(-job.main(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return slurp(job.out("will")) == "will\n"; }, 2000));
  EXPECT_FALSE(any_lives(pids));
}

TEST(Guard, AFrozenOneIsWokenToDoItsWork) {
  DrivenJob job(k_driver, {"stop=500", "kill_after=200"}, {"sleep", "60"});
  job.command();
  const pid_t guard = job.guard();
  kill(guard, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(guard) == 'T'; }));
  EXPECT_EQ(job.exit_code(3000), 79);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::forced));
}

TEST(Guard, IsNotImpressedBySignals) {
  DrivenJob job(k_driver, {}, {"sleep", "0.5"});
  const pid_t guard = job.guard();
  job.command();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGTSTP, SIGTTIN, SIGRTMAX})
    kill(guard, signal);
  EXPECT_EQ(job.exit_code(), 0);
}

TEST(Forwarded, WhatIsLeftAfterATermGetsGraceAndThenKill) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    DrivenJob job(k_driver, {"kill_after=300"},
                  {"/bin/bash", "-c",
                   "(trap '' 1 2 3 15; echo $BASHPID >> $1; sleep 60; :) & trap 'exit 6' 1 2 3 15; "
                   "while [ ! -s $1 ]; do sleep 0.01; done; echo $! >> $1; while :; do sleep 0.01; done",
                   "sh", "@/pids"});
    const auto pids = pids_in(job.out("pids"), 2);
    const auto began = Clock::now();
    job.signal(signal);
    EXPECT_EQ(job.exit_code(), 6);
    EXPECT_GE(ms_since(began), 290);
    EXPECT_FALSE(any_lives(pids));
    EXPECT_EQ(job.ended_cause(), cause(StopCause::none));
  }
}

TEST(Forwarded, ACommandMayTakeItsTime) {
  DrivenJob job(k_driver, {"kill_after=100"},
                shell("trap 'sleep 0.6; exit 8' TERM; echo ready > $1; sleep 60 & wait", "@/out"));
  ASSERT_TRUE(eventually([&] { return slurp(job.out("out")) == "ready\n"; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.exit_code(), 8);
}

TEST(Forwarded, AGivenKillAfterBoundsIt) {
  DrivenJob job(k_driver, {"kill_after=200", "bound=1"},
                shell("trap '' TERM; echo $$ > $1; while :; do sleep 0.01; done", "@/pids"));
  pids_in(job.out("pids"), 1);
  job.signal(SIGTERM);
  const int status = job.wait(3000);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(job.ended_cause(), cause(StopCause::none));
}

TEST(Forwarded, Usr1IsNoReasonToCleanUp) {
  DrivenJob job(k_driver, {"kill_after=100"},
                shell("trap '' USR1; sleep 60 & echo $! > $1; trap 'exit 0' USR1; echo >> $1; while :; do "
                      "sleep 0.01; done",
                      "@/out"));
  ASSERT_TRUE(eventually([&] { return lines_of(job.out("out")).size() == 2; }));
  job.signal(SIGUSR1);
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_TRUE(lives(std::stoi(slurp(job.out("out")))));
}

}  // namespace
}  // namespace klock::test
