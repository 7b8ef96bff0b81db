// SPDX-License-Identifier: MIT
#include "commands/verdict.hpp"

#include "commands/check.hpp"
#include "util/exit_status.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace klock {
namespace {

// Wait statuses as wait(2) makes them.
constexpr int exited(int code) {
  return code << 8;
}
constexpr int killed_by(int signal) {
  return signal;
}

class VerdictTest : public testing::Test {
 protected:
  Verdict decide(const HoldEnd& end, bool lost_at_release = false) {
    Verdict verdict("demo");
    verdict.acquired(5);
    if (lost_at_release) verdict.found_lost_at_release();
    verdict.decide(end, settings, "prog", [this](auto& what, auto&) { told += what + "\n"; });
    return verdict;
  }

  static HoldEnd end_with(int wait_status, StopCause cause = StopCause::none) {
    HoldEnd end;
    end.wait_status = wait_status;
    end.stopped = cause;
    return end;
  }

  Settings settings;
  std::string told;
};

TEST_F(VerdictTest, PassesEveryExitStatusOnSilently) {
  for (int code = 0; code < 256; ++code) EXPECT_EQ(decide(end_with(exited(code))).report.exit_status, code);
  EXPECT_EQ(told, "");
}

TEST_F(VerdictTest, WhatWasNotStartedWasNotStoppedEither) {
  HoldEnd end;
  end.stopped = StopCause::deadline;
  end.lost = "klock was suspended";
  const Verdict verdict = decide(end);
  EXPECT_EQ(verdict.report.outcome, "lost");
  EXPECT_EQ(verdict.report.exit_status, k_exit_lost);
  EXPECT_FALSE(verdict.report.command_exit);
  EXPECT_EQ(verdict.report.command_signal, "");
  EXPECT_NE(told.find("the command was not started"), std::string::npos) << told;
  EXPECT_EQ(verdict.die_of, 0);
}

TEST_F(VerdictTest, AnOrderThatCameTooLateIsNone) {
  HoldEnd end = end_with(exited(3));
  end.order = StopRequest{"root@a", "why"};
  EXPECT_EQ(decide(end).report.outcome, "completed");
}

class CheckVerdictTest : public VerdictTest {
 protected:
  Verdict decide(const HoldEnd& end, bool lost_at_release = false) {
    Verdict verdict("demo");
    verdict.acquired(5);
    if (lost_at_release) verdict.found_lost_at_release();
    told.clear();
    verdict.decide_check(end, answer_of(end), settings, [this](auto& what, auto&) { told += what + "\n"; });
    return verdict;
  }
};

TEST_F(CheckVerdictTest, DoneIsSkippedInSilence) {
  settings.skip_exit_code.value = 9;
  const Verdict verdict = decide(end_with(exited(0)));
  EXPECT_EQ(verdict.report.outcome, "skipped");
  EXPECT_EQ(verdict.report.exit_status, 9);
  EXPECT_FALSE(verdict.report.command_exit);
  EXPECT_EQ(told, "");
}

TEST_F(CheckVerdictTest, WhatCannotBeRunGivesNoAnswer) {
  for (const int status : {126, 127}) {
    EXPECT_EQ(decide(end_with(exited(status))).report.exit_status, status);
    EXPECT_NE(told, "");
  }
  HoldEnd missing;
  missing.exec_error = ENOENT;
  const Verdict unfound = decide(missing, true);
  EXPECT_EQ(unfound.report.exit_status, 127);
  EXPECT_EQ(unfound.report.outcome, "error") << "nothing ran that the loss could have hurt";
  EXPECT_EQ(unfound.report.reason, "cannot run the check of --unless: No such file or directory");
  const Verdict killed = decide(end_with(killed_by(SIGSEGV)));
  EXPECT_EQ(killed.report.exit_status, 128 + SIGSEGV);
  EXPECT_EQ(killed.report.outcome, "error");
}

TEST_F(CheckVerdictTest, ASignalToKlockEndsTheRun) {
  for (const int wait_status : {exited(0), exited(1), killed_by(SIGTERM)}) {
    HoldEnd end = end_with(wait_status);
    end.asked_to_end = SIGTERM;
    const Verdict verdict = decide(end);
    EXPECT_EQ(verdict.report.exit_status, 128 + SIGTERM);
    EXPECT_EQ(verdict.report.outcome, "interrupted");
    EXPECT_EQ(verdict.die_of, SIGTERM);
  }
}

TEST_F(CheckVerdictTest, ALossOrAnOrderWinsHoweverLateItCame) {
  HoldEnd lost = end_with(exited(0));
  lost.lost = "its record is gone";
  EXPECT_EQ(decide(lost).report.outcome, "lost");
  HoldEnd forced = end_with(exited(1));
  forced.order = StopRequest{"root@a", "why"};
  forced.lock = "other";
  const Verdict verdict = decide(forced);
  EXPECT_EQ(verdict.report.outcome, "forced");
  EXPECT_EQ(verdict.report.exit_status, k_exit_lost);
  EXPECT_EQ(verdict.report.reason, "other: by root@a, reason: why");
  EXPECT_EQ(decide(end_with(exited(0)), true).report.outcome, "lost");
  EXPECT_EQ(decide(end_with(killed_by(SIGKILL), StopCause::max_hold)).report.exit_status, k_exit_max_hold);
}

TEST(AnswerOfACheck, IsClearOnlyIfItEndedUndisturbed) {
  HoldEnd end;
  end.wait_status = exited(0);
  EXPECT_EQ(answer_of(end), Answer::work_is_done);
  for (const int status : {1, 2, 125, 128, 255}) {
    end.wait_status = exited(status);
    EXPECT_EQ(answer_of(end), Answer::not_done) << status;
  }
  HoldEnd other = end;
  other.stopped = StopCause::lost;
  EXPECT_EQ(answer_of(other), Answer::none);
  other = end;
  other.asked_to_end = SIGHUP;
  EXPECT_EQ(answer_of(other), Answer::none);
  other = end;
  other.order = StopRequest{};
  EXPECT_EQ(answer_of(other), Answer::none);
  other = end;
  other.lost = "gone";
  EXPECT_EQ(answer_of(other), Answer::none);
  EXPECT_EQ(answer_of(HoldEnd{}), Answer::none);
}

TEST_F(VerdictTest, DiesOfWhatTheShellMustSee) {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM}) {
    const auto verdict = decide(end_with(killed_by(signal)));
    EXPECT_EQ(verdict.report.exit_status, 128 + signal);
    EXPECT_EQ(verdict.die_of, signal);
  }
  const auto killed = decide(end_with(killed_by(SIGKILL)));
  EXPECT_EQ(killed.report.exit_status, 137);
  EXPECT_EQ(killed.die_of, 0);
  EXPECT_EQ(killed.report.command_signal, "KILL");
}

TEST_F(VerdictTest, ALostLeaseWinsOverTheCommandsSuccess) {
  HoldEnd end = end_with(exited(0), StopCause::lost);
  end.lost = "its record is gone";
  const auto verdict = decide(end);
  EXPECT_EQ(verdict.report.exit_status, k_exit_lost);
  EXPECT_EQ(verdict.report.outcome, "lost");
  EXPECT_EQ(verdict.report.command_exit, 0);
  EXPECT_NE(told.find("its record is gone"), std::string::npos);
}

TEST_F(VerdictTest, LostAtTheReleaseIsLostToo) {
  EXPECT_EQ(decide(end_with(exited(0)), true).report.exit_status, k_exit_lost);
}

TEST_F(VerdictTest, AForcedReleaseNamesWhoAndWhy) {
  HoldEnd end = end_with(killed_by(SIGTERM), StopCause::forced);
  end.order = StopRequest{"root@admin", "stuck"};
  const auto verdict = decide(end);
  EXPECT_EQ(verdict.report.exit_status, k_exit_lost);
  EXPECT_EQ(verdict.report.outcome, "forced");
  EXPECT_EQ(verdict.die_of, 0);
  EXPECT_NE(told.find("root@admin, reason: stuck"), std::string::npos);
}

TEST_F(VerdictTest, LossWinsOverMaxHold) {
  settings.max_hold.value = std::chrono::seconds(5);
  EXPECT_EQ(decide(end_with(killed_by(SIGTERM), StopCause::max_hold)).report.exit_status, k_exit_max_hold);
  HoldEnd end = end_with(killed_by(SIGTERM), StopCause::max_hold);
  end.lost = "gone";
  EXPECT_EQ(decide(end).report.exit_status, k_exit_lost);
}

TEST_F(VerdictTest, AProgramThatCannotRunIs126Or127) {
  HoldEnd end;
  end.exec_error = ENOENT;
  EXPECT_EQ(decide(end).report.exit_status, k_exit_not_found);
  end.exec_error = EACCES;
  const Verdict verdict = decide(end);
  EXPECT_EQ(verdict.report.exit_status, k_exit_cannot_execute);
  EXPECT_EQ(verdict.report.reason, "cannot run prog: Permission denied");
  EXPECT_FALSE(verdict.report.command_exit);
}

TEST_F(VerdictTest, TheLockIsCalledReleasedOnlyIfItWas) {
  HoldEnd missing;
  missing.exec_error = ENOENT;
  for (const HoldEnd& end : {missing, end_with(exited(127)), end_with(killed_by(SIGKILL))})
    for (const bool free : {false, true})
      for (const bool of_check : {false, true}) {
        Verdict verdict("demo");
        if (free) verdict.found_free();
        std::string hints;
        const auto tell = [&](auto&, auto& hint) { hints += hint; };
        if (of_check)
          verdict.decide_check(end, answer_of(end), settings, tell);
        else
          verdict.decide(end, settings, "prog", tell);
        const bool claimed = free && (of_check || end.exec_error);
        EXPECT_EQ(hints.find("the lock is released") != std::string::npos, claimed) << hints;
      }
}

TEST_F(VerdictTest, ErrorsMapToTheirStatus) {
  Verdict verdict("demo");
  verdict.failed({ErrorKind::unreachable, "no answer"}, exit_status(ErrorKind::unreachable));
  EXPECT_EQ(verdict.report.outcome, "unavailable");
  EXPECT_EQ(verdict.report.exit_status, k_exit_unavailable);
  EXPECT_FALSE(verdict.report.acquired);
}

}  // namespace
}  // namespace klock
