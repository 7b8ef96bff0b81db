// SPDX-License-Identifier: MIT
#include "commands/ancestors.hpp"
#include "commands/check.hpp"
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "commands/hold.hpp"
#include "commands/locks.hpp"
#include "commands/outage.hpp"
#include "commands/plan.hpp"
#include "commands/release.hpp"
#include "commands/verdict.hpp"
#include "commands/waiting.hpp"
#include "commands/waiting_line.hpp"
#include "journal/outcome_file.hpp"
#include "lease/acquirer.hpp"
#include "output/human_time.hpp"
#include "util/exit_status.hpp"

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration k_guard_release = seconds(10);
constexpr Duration k_local_release = seconds(5);

// One run, from the resolved settings to the verdict.
class Run {
 public:
  Run(const RunRequest& request, const Context& context, SignalDesk& desk)
      : request_(request),
        context_(&context),
        settings_(context.settings),
        desk_(desk),
        outage_(context),
        verdict_(request.name) {}

  Verdict go() {
    if (const auto ended = steps(); !ended) fail(ended.error());
    verdict_.report.waited_ms = std::chrono::floor<milliseconds>(waited_).count();
    return std::move(verdict_);
  }

 private:
  // What happened under the locks. With an answer the command did not run.
  struct Work {
    HoldEnd end;
    std::optional<Answer> answer = {};
  };

  Status steps() {
    KLOCK_CHECK(prepare());
    if (verdict_.decided) return {};
    KLOCK_TRY(job, begin());
    auto taken = wait_for_locks();
    if (!taken) {
      auto detour = outage_.way_out(taken.error());
      if (!detour) return tl::unexpected(std::move(taken).error());
      job.reset();  // its guard knows the store that is away
      go_on_in(*std::move(detour));
      KLOCK_TRY(another, begin());
      job = std::move(another);
      taken = wait_for_locks();
      if (!taken) return tl::unexpected(std::move(taken).error());
    }
    const Acquisition& acquisition = *taken;
    const auto* lease = std::get_if<Lease>(&acquisition);
    if (lease == nullptr) return not_acquired(acquisition);
    if (is_locked()) verdict_.acquired(lease->fence);
    desk_.watch_all();
    auto work = work_under_locks(*job);
    if (!work) {
      // Stop, wait, release: the guard stops what it may have started before the job is gone.
      job.reset();
      const Instant limit = std::min(locks_->deadline(), BootClock::now() + k_local_release);
      for (auto lock = locks_->held().rbegin(); lock != locks_->held().rend(); ++lock) {
        lock->session->explain_end(EventKind::gave_up, work.error().what);
        (void)lock->session->release(limit, {});
      }
      return tl::unexpected(std::move(work).error());
    }
    release(*work);
    decide(*work);
    verdict_.report.held_ms = std::chrono::floor<milliseconds>(BootClock::now() - lease->acquired_at).count();
    return {};
  }

  // Everything that can be found wrong before anything is touched.
  Status prepare() {
    KLOCK_TRY(plan, make_plan(request_, settings_));
    plan_ = std::move(plan);
    for (const Claim& claim : plan_.claims) KLOCK_CHECK(context_->store->accepts(claim));
    if (plan_.missing) {
      verdict_.cannot_run(plan_.missing->program, plan_.missing->error, "nothing was acquired",
                          teller(request_.name));
      return {};
    }
    plan_.job.original_mask = desk_.original_mask();
    plan_.job.ignore_chld = desk_.chld_was_ignored();
    // In the guard, once main is gone: fresh connections, as the old ones' replies belonged to main.
    plan_.job.last_will = [this](bool started) {
      const Instant limit = BootClock::now() + k_guard_release;
      for (auto claim = plan_.claims.rbegin(); claim != plan_.claims.rend(); ++claim) {
        const auto session = context_->store->session(*claim);
        (void)session->count_min_hold(started);
        session->explain_end(EventKind::gave_up, "klock was killed");
        (void)session->release(limit, {});
      }
    };
    outage_.begin(plan_.claims);
    locks_.emplace(*context_->store, plan_.claims);
    return {};
  }

  // Asks for the locks, and makes the guard meanwhile.
  Result<std::unique_ptr<Job>> begin() {
    locks_->begin(waits(), BootClock::now() + settings_.store_timeout.value, Interrupt{desk_.fd()});
    auto job = Job::prepare(plan_.job);
    if (!job) locks_->withdraw(BootClock::now() + settings_.store_timeout.value);  // what we may have got
    return job;
  }

  void go_on_in(Context&& detour) {
    detour_ = std::move(detour);
    context_ = &*detour_;
    locks_.emplace(*context_->store, plan_.claims);
    verdict_.report.degraded = outage_.ground() == Ground::host ? "local" : "run";
  }

  bool is_locked() const { return outage_.ground() != Ground::nowhere; }
  KnownToken known_token() const { return {plan_.token(), outage_.ground()}; }

  bool waits() const { return settings_.wait.value != Duration::zero(); }

  Result<Acquisition> wait_for_locks() {
    WaitPolicy policy = wait_policy(settings_, begun_);
    outage_.observe(policy);
    std::optional<WaitingLine> line;
    std::string waited_for;
    auto acquisition = locks_->acquire(policy, Interrupt{desk_.fd()}, [&](auto& name, auto& busy) {
      if (!line || waited_for != name) line.emplace(context_->say, name, context_->store->describe(), begun_);
      waited_for = name;
      return (*line)(busy);
    });
    waited_ = BootClock::now() - begun_;
    return acquisition;
  }

  Status not_acquired(const Acquisition& acquisition) {
    outage_.end("nothing was acquired");
    if (const auto* busy = std::get_if<Busy>(&acquisition)) {
      const int status = settings_.conflict_exit_code.value;
      report_busy(*context_, locks_->last_name(), *busy, waits(), status);
      verdict_.settle("busy", status);
      return {};
    }
    if (const auto* done = std::get_if<Completed>(&acquisition)) {
      explain("skipped: " + *request_.once + " was " + describe_marker(done->marker));
      verdict_.settle("skipped", settings_.skip_exit_code.value);
      return {};
    }
    verdict_.interrupted(report_interruption(*context_, request_.name, desk_));
    return {};
  }

  Result<Work> work_under_locks(Job& job) {
    for (const HeldLock& lock : locks_->held())
      if (is_locked())
        explain_about(lock.name, lock.lease.joined ? "joins the hold of an ancestor"
                                                   : "acquired, fence " + std::to_string(lock.lease.fence));
    outage_.tell_detour();
    if (request_.unless) {
      KLOCK_CHECK(start(job));
      KLOCK_TRY(check, hold(job));
      const Answer answer = answer_of(check);
      if (answer != Answer::not_done) return Work{std::move(check), answer};
      explain("the check of --unless says that the work is not done");
    }
    KLOCK_CHECK(start(job));
    outage_.note_detour();
    KLOCK_CHECK(locks_->count_min_hold(true));
    KLOCK_TRY(end, hold(job));
    if (!end.wait_status) {  // it was not started
      (void)locks_->count_min_hold(false);
      outage_.note_failure(describe_end(end));
    }
    return Work{std::move(end)};
  }

  // One command under the locks: the check of --unless, or the command itself.
  Status start(Job& job) {
    const std::vector<std::string> environment{
        "KLOCK_NAME=" + request_.name, "KLOCK_TOKEN=" + token_text(known_token()),
        "KLOCK_FENCE=" + std::to_string(locks_->lease().fence),
        "KLOCK_MODE=" + std::string(mode_name(request_.mode)), "KLOCK_HELD=" + held_tokens(known_token())};
    // An ancestor may have a shorter lease than ours was to be.
    const auto joined = [](const HeldLock& lock) { return lock.lease.joined; };
    if (std::any_of(locks_->held().begin(), locks_->held().end(), joined))
      job.bound_kill_after((locks_->deadline() - BootClock::now()) / 3);
    KLOCK_CHECK(job.start(environment, locks_->deadline(), locks_->hold_fds()));
    locks_->heed_start();
    return {};
  }

  Result<HoldEnd> hold(Job& job) {
    const auto watch = outage_.went_on() ? outage_.watch_return() : nullptr;  // the check is no matter
    return Hold(job, *locks_, desk_, settings_,
                [this](auto& name, auto& what, auto& hint) { tell_about(name, what, hint); })
        .run();
  }

  void release(const Work& work) {
    if (!is_locked()) return;
    bool went_well = !work.answer && work.end.wait_status == 0 && work.end.stopped == StopCause::none &&
                     work.end.lost.empty();
    const bool ordered = work.end.order && (work.end.stopped != StopCause::none || !work.end.lost.empty());
    const bool done = work.answer == Answer::work_is_done;
    Release ending(*context_, desk_, ordered ? EventKind::forced : EventKind::released,
                   done ? "the check of --unless says that the work is done" : describe_end(work.end));
    bool free = true;
    const auto end = [&](HeldLock& lock, bool complete) {
      const Release::End how = ending.release(lock, complete);
      free &= how == Release::End::free;
      if (how != Release::End::not_ours) return;
      verdict_.found_lost_at_release();
      went_well = false;
    };
    // NAME last: its mark is left only when all were held to the end.
    for (auto lock = locks_->held().rbegin(); lock != locks_->held().rend(); ++lock)
      if (!locks_->is_first(*lock)) end(*lock, false);
    end(locks_->first(), request_.once && went_well);
    if (free) verdict_.found_free();
  }

  void decide(const Work& work) {
    const auto tell_it = teller(work.end.lock.empty() ? request_.name : work.end.lock);
    if (!work.answer) return verdict_.decide(work.end, settings_, plan_.job.argv[0], tell_it);
    verdict_.decide_check(work.end, *work.answer, settings_, tell_it);
    if (verdict_.report.outcome == "skipped")
      explain("skipped: the check of --unless says that the work is done");
  }

  void fail(const Error& error) {
    const int status = report_failure(context_->say, failed_name(), context_->store->describe(), error);
    verdict_.failed(error, status);
  }
  const std::string& failed_name() const {
    return locks_ && !verdict_.report.acquired ? locks_->last_name() : request_.name;
  }

  void tell_about(const std::string& name, const std::string& what, const std::string& hint) const {
    context_->say.tell(about(name, what, context_->store->describe(), hint));
  }
  Verdict::Teller teller(const std::string& name) const {
    return [this, name](auto& what, auto& hint) { tell_about(name, what, hint); };
  }
  void explain_about(const std::string& name, const std::string& what) const {
    if (context_->say.verbose()) context_->say.explain(about(name, what, context_->store->describe(), {}));
  }
  void explain(const std::string& what) const { explain_about(request_.name, what); }

  const RunRequest& request_;
  const Context* context_;
  const Settings& settings_;
  SignalDesk& desk_;
  Outage outage_;
  std::optional<Context> detour_;  // where we are instead, as the store is away
  const Instant begun_ = BootClock::now();
  Duration waited_{};
  Plan plan_;
  std::optional<Locks> locks_;
  Verdict verdict_;
};

int conclude(const Verdict& verdict, const Messenger& say, const std::string& outcome_file) {
  if (!outcome_file.empty())
    if (const auto written = write_outcome(outcome_file, verdict.report); !written)
      say.tell(about(verdict.report.name, written.error(), {}));
  if (verdict.die_of != 0) die_of(verdict.die_of);
  return verdict.report.exit_status;
}

}  // namespace

int run(const RunRequest& request) {
  auto desk = SignalDesk::open();
  if (!desk) return report_failure(request.flags, request.name, desk.error());
  const auto context = open_context(request.flags);
  if (!context) {
    Verdict verdict(request.name);
    verdict.failed(context.error(), report_failure(request.flags, request.name, context.error()));
    const auto file = request.flags.find("outcome-file");
    return conclude(verdict, Messenger(0), file == request.flags.end() ? "" : file->second.value);
  }
  return conclude(Run(request, *context, *desk).go(), context->say, context->settings.outcome_file.value);
}

}  // namespace klock
