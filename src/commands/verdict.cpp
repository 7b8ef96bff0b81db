// SPDX-License-Identifier: MIT
#include "commands/verdict.hpp"

#include "config/duration.hpp"
#include "supervise/signals.hpp"
#include "util/exit_status.hpp"

#include <sys/wait.h>

#include <cerrno>
#include <cstring>

namespace klock {
namespace {

std::string outcome_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::unreachable:
    case ErrorKind::not_ready:
    case ErrorKind::unsafe:
    case ErrorKind::protocol:
      return "unavailable";
    case ErrorKind::refused:
      return "refused";
    case ErrorKind::forced:
      return "forced";
    default:
      return "error";
  }
}

}  // namespace

std::string describe_end(const HoldEnd& end) {
  if (end.order && end.order->released) return "klock release";
  if (!end.lost.empty()) return end.lost;
  if (end.exec_error)
    return std::string("the command could not be started: ") + std::strerror(*end.exec_error);
  if (end.stopped == StopCause::max_hold) return "max-hold";
  if (end.stopped == StopCause::guard_gone) return "the guard process died";
  const int status = end.wait_status.value_or(0);
  if (WIFSIGNALED(status)) return "signal " + signal_name(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

void Verdict::settle(const std::string& outcome, int status) {
  report.outcome = outcome;
  report.exit_status = status;
  decided = true;
}

void Verdict::acquired(std::uint64_t fence) {
  report.acquired = true;
  report.fence = fence;
}

void Verdict::interrupted(const Interruption& end) {
  settle("interrupted", end.status);
  die_of = end.die_of;
}

void Verdict::failed(const Error& error, int status) {
  settle(outcome_of(error.kind), status);
  report.reason = error.what;
}

void Verdict::command_ended(int wait_status) {
  if (WIFEXITED(wait_status)) {
    report.command_exit = WEXITSTATUS(wait_status);
    settle("completed", WEXITSTATUS(wait_status));
    return;
  }
  const int signal = WTERMSIG(wait_status);
  report.command_signal = signal_name(signal);
  const Interruption end = interruption(signal);
  settle("completed", end.status);
  die_of = end.die_of;
}

// What wins over the command's own end. `ordered`: somebody's order counts as the end.
bool Verdict::decide_loss(const HoldEnd& end, bool ordered, const Settings& settings, const std::string& who,
                          const Teller& tell) {
  const auto settle_as = [&](const char* outcome, int status, const std::string& reason,
                             const std::string& what, const std::string& hint) {
    settle(outcome, status);
    report.reason = reason;
    if (!reason.empty() && !end.lock.empty() && end.lock != report.name)
      report.reason = end.lock + ": " + reason;
    die_of = 0;
    tell(what, hint);
    return true;
  };
  const bool ran = end.wait_status.has_value();
  const std::string stop_text = !ran                             ? "; " + who + " was not started"
                                : end.stopped != StopCause::none ? "; " + who + " was stopped"
                                                                 : "";
  if (ordered) {
    const std::string told = describe_order(*end.order);
    const char* how = end.order->released ? "the lock was " : "the lock was released by force ";
    return settle_as("forced", k_exit_lost, told, how + told + stop_text, {});
  }
  if (!end.lost.empty())
    return settle_as("lost", k_exit_lost, end.lost, "the lease was lost: " + end.lost + stop_text,
                     ran ? "somebody else may have run since; check what " + who + " did" : "");
  if (lost_at_release_)
    return settle_as("lost", k_exit_lost, "not ours at the release",
                     "the lease was lost: at the release it was not ours any more",
                     "somebody else may have run meanwhile; check what " + who + " did");
  if (end.stopped == StopCause::max_hold)
    return settle_as("max_hold", k_exit_max_hold, {},
                     who + " was stopped after " + format_duration(settings.max_hold.value) + " (--max-hold)",
                     {});
  if (end.stopped == StopCause::guard_gone)
    return settle_as("error", k_exit_system, "the guard process died", "the guard process died" + stop_text,
                     "who killed it?");
  return false;
}

void Verdict::not_run(const std::string& why, int status, const std::string& hint, const Teller& tell) {
  settle("error", status);
  report.reason = why;
  tell(why, hint);
}

void Verdict::cannot_run(const std::string& program, int error, const std::string& hint, const Teller& tell) {
  not_run("cannot run " + program + ": " + std::strerror(error),
          error == ENOENT ? k_exit_not_found : k_exit_cannot_execute, hint, tell);
}

void Verdict::decide(const HoldEnd& end, const Settings& settings, const std::string& program,
                     const Teller& tell) {
  if (end.exec_error) {
    std::string hint = *end.exec_error == ENOENT ? "is its interpreter (#!) there?" : "";
    if (free_) hint += std::string(hint.empty() ? "" : " ") + "the lock is released";
    return cannot_run(program, *end.exec_error, hint, tell);
  }
  if (end.wait_status) command_ended(*end.wait_status);
  // One that came when the command had ended by itself is none.
  const bool ordered = end.order && (!end.lost.empty() || end.stopped != StopCause::none);
  decide_loss(end, ordered, settings, "the command", tell);
}

void Verdict::decide_check(const HoldEnd& end, Answer answer, const Settings& settings, const Teller& tell) {
  const std::string check = "the check of --unless";
  const std::string hint =
      free_ ? "the command was not run, the lock is released" : "the command was not run";
  if (end.exec_error) return cannot_run(check, *end.exec_error, hint, tell);
  if (decide_loss(end, end.order.has_value(), settings, check, tell)) return;
  if (end.asked_to_end != 0) return interrupted(interruption(end.asked_to_end));
  if (answer == Answer::work_is_done) return settle("skipped", settings.skip_exit_code.value);
  const int status = end.wait_status.value_or(0);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return not_run(check + " died of " + signal_name(signal), k_exit_signal + signal, hint, tell);
  }
  const int code = WEXITSTATUS(status);
  not_run(check + " can't be run, status " + std::to_string(code), code, hint, tell);
}

}  // namespace klock
