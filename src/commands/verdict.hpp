// SPDX-License-Identifier: MIT
#pragma once

#include "commands/check.hpp"
#include "commands/hold.hpp"
#include "commands/waiting.hpp"
#include "journal/outcome_file.hpp"

#include <functional>
#include <string>

namespace klock {

// What ended the command, for the log: "exit 3", "signal TERM", "max-hold", why the lease was lost, ...
std::string describe_end(const HoldEnd& end);

// What a run has come to: the report, the exit status, and the signal that klock should die of (0: none).
// The rule: the command's own status stands only if it ran under the lock the whole time.
struct Verdict {
  explicit Verdict(std::string name) { report.name = std::move(name); }

  void settle(const std::string& outcome, int status);
  void acquired(std::uint64_t fence);
  void interrupted(const Interruption& end);
  void failed(const Error& error, int status);
  void found_lost_at_release() { lost_at_release_ = true; }
  void found_free() { free_ = true; }  // every lock, after the release

  // Tells what, hint.
  using Teller = std::function<void(const std::string&, const std::string&)>;

  // `error` (errno) kept it from being started.
  void cannot_run(const std::string& program, int error, const std::string& hint, const Teller& tell);

  // Decides how a hold ended; tells about everything but the command's own end.
  void decide(const HoldEnd& end, const Settings& settings, const std::string& program, const Teller& tell);

  // The same when the command did not run, because of what the check of --unless answered: work_is_done or
  // none.
  void decide_check(const HoldEnd& end, Answer answer, const Settings& settings, const Teller& tell);

  RunReport report;
  bool decided = false;
  int die_of = 0;

 private:
  void command_ended(int wait_status);
  void not_run(const std::string& why, int status, const std::string& hint, const Teller& tell);
  bool decide_loss(const HoldEnd& end, bool ordered, const Settings& settings, const std::string& who,
                   const Teller& tell);

  bool lost_at_release_ = false;
  bool free_ = false;
};

}  // namespace klock
