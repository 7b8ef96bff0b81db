// SPDX-License-Identifier: MIT
#include "commands/ancestors.hpp"
#include "commands/commands.hpp"
#include "commands/keeper.hpp"
#include "commands/outage.hpp"
#include "commands/waiting.hpp"
#include "commands/waiting_line.hpp"
#include "output/stdout.hpp"
#include "supervise/signals.hpp"
#include "util/exit_status.hpp"
#include "util/interrupt_set.hpp"
#include "util/random.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>

namespace klock {
namespace {

using std::chrono::seconds;

constexpr Duration k_local_release = seconds(5);

bool is_kept(const AcquireRequest& request) {
  return request.keeper && !request.maintenance;
}

bool is_among(const std::vector<Holder>& holders, const std::vector<Token>& ours) {
  return std::any_of(holders.begin(), holders.end(), [&](const Holder& holder) {
    return std::any_of(ours.begin(), ours.end(), [&](const Token& token) { return token.id() == holder.id; });
  });
}

// For another one, at once.
bool has_room(const LockState& state, const Claim& claim) {
  if (claim.mode == Mode::exclusive || state.mode == Mode::exclusive || !state.waiters.empty()) return false;
  return claim.mode == Mode::shared || state.holders.size() < claim.slots;
}

// One acquisition for a shell, from the resolved settings to what it has to evaluate.
class ShellAcquisition {
 public:
  ShellAcquisition(const AcquireRequest& request, const Context& context, SignalDesk& desk,
                   const OtherProcess& shell)
      : request_(request),
        context_(&context),
        settings_(context.settings),
        desk_(desk),
        shell_(shell),
        outage_(context) {}

  Result<Interruption> run() {
    KLOCK_CHECK(prepare());
    InterruptSet interrupts;
    KLOCK_CHECK(interrupts.add(desk_.fd()));
    KLOCK_CHECK(interrupts.add(shell_.fd()));
    auto taken = take(interrupts.interrupt());
    if (!taken) {
      auto detour = outage_.way_out(taken.error());
      if (!detour) return tl::unexpected(std::move(taken).error());
      go_on_in(*std::move(detour));
      taken = take(interrupts.interrupt());
      if (!taken) return tl::unexpected(std::move(taken).error());
    }
    const Acquisition& acquisition = *taken;
    const auto* lease = std::get_if<Lease>(&acquisition);
    if (lease == nullptr) return not_acquired(acquisition);
    if (outage_.ground() != Ground::nowhere) explain("acquired, fence " + std::to_string(lease->fence));
    if (shell_.has_ended()) {
      release(*lease);
      return interruption(SIGHUP);
    }
    if (claim_.detached) {
      if (auto told = tell_shell(*lease); !told) {
        release(*lease);
        return tl::unexpected(std::move(told).error());
      }
      return Interruption{k_exit_ok};
    }
    return hand_over(*lease);
  }

 private:
  Status prepare() {
    if (settings_.conflict_exit_code.value == k_exit_ok &&
        settings_.conflict_exit_code.origin == Origin::flag)
      return failure(ErrorKind::usage,
                     settings_.conflict_exit_code.where + " 0 would have the shell go on without the lock");
    KLOCK_TRY(lock, make_lock_name(settings_.prefix.value, request_.name, request_.key));
    KLOCK_TRY(signal, stop_signal(settings_));
    KLOCK_TRY(token, random_hex128());
    signal_ = signal;
    claim_.lock = std::move(lock);
    claim_.token = Token{std::move(token)};
    claim_.mode = request_.mode;
    claim_.slots = request_.slots;
    claim_.max_waiters = settings_.max_waiters.value;
    KLOCK_TRY(replicas, chosen_replicas(settings_));
    claim_.wait_replicas = replicas;
    claim_.ttl = request_.maintenance.value_or(settings_.ttl.value);
    claim_.detached = !is_kept(request_);
    claim_.for_script = true;
    KLOCK_TRY(group, chosen_group(settings_));
    claim_.group = std::move(group);
    claim_.who =
        describe_self(request_.maintenance ? "maintenance" : shell_.program(), settings_.message.value);
    // Whom an administrator looks for. A hold that no process keeps has none: its end proves nothing.
    claim_.who.pid = claim_.detached ? 0 : shell_.pid();
    KLOCK_CHECK(context_->store->accepts(claim_));
    session_ = context_->store->session(claim_);
    outage_.begin({claim_});
    return {};
  }

  void go_on_in(Context&& detour) {
    detour_ = std::move(detour);
    context_ = &*detour_;
    session_ = context_->store->session(claim_);
  }

  Result<Acquisition> take(Interrupt interrupt) {
    const Instant begun = BootClock::now();
    WaitPolicy policy = wait_policy(settings_, begun);
    outage_.observe(policy);
    const std::vector<Token> ours = ancestor_tokens();
    if (policy.wait && !ours.empty()) {
      // One of our own would be waited for for ever.
      const auto state = context_->store->inspect(claim_.lock, policy.contact_deadline(), interrupt);
      own_ = state && is_among(state->holders, ours) && !has_room(*state, claim_);
      if (own_) return Busy{};
    }
    WaitingLine line(context_->say, request_.name, context_->store->describe(), begun);
    return klock::acquire(*session_, policy, interrupt, std::ref(line));
  }

  // A 0 that a file has for the sake of cron jobs must not let a shell go on.
  int busy_status() const {
    const int status = settings_.conflict_exit_code.value;
    return status != k_exit_ok ? status : k_exit_busy;
  }

  Interruption not_acquired(const Acquisition& acquisition) {
    outage_.end("nothing was acquired");
    if (const auto* busy = std::get_if<Busy>(&acquisition)) {
      if (own_) {
        context_->say.tell(about(request_.name, "this shell or its caller holds it already",
                                 context_->store->describe(),
                                 "klock release " + request_.name + " ends that"));
        return {busy_status()};
      }
      report_busy(*context_, request_.name, *busy, settings_.wait.value != Duration::zero(), busy_status());
      return {busy_status()};
    }
    if (!shell_.has_ended()) return report_interruption(*context_, request_.name, desk_);
    explain("the shell ended while klock waited");
    return interruption(SIGHUP);
  }

  Result<Interruption> hand_over(const Lease& lease) {
    std::unique_ptr<ReturnWatch> watch;  // the keeper's, not ours
    auto keeper = Keeper::start({*session_, claim_.token.id(), lease, settings_.ttl.value,
                                 std::min(settings_.kill_after.value, settings_.ttl.value / 3), shell_,
                                 signal_, settings_.on_lost.value == OnLost::stop,
                                 [this](auto& what, auto& hint) { tell(what, hint); },
                                 [&] {
                                   if (detour_) watch = watch_return();
                                 }});
    if (!keeper) {
      release(lease);
      return tl::unexpected(std::move(keeper).error());
    }
    KLOCK_CHECK(tell_shell(lease));
    KLOCK_CHECK(keeper->confirm());
    return Interruption{k_exit_ok};
  }

  // A keeper that keeps nothing has nothing more to do then.
  std::unique_ptr<ReturnWatch> watch_return() {
    return outage_.watch_return([this] {
      if (outage_.ground() == Ground::nowhere) kill(getpid(), SIGTERM);
    });
  }

  void tell(const std::string& what, const std::string& hint) const {
    context_->say.tell(about(request_.name, what, context_->store->describe(), hint));
  }

  void release(const Lease& lease) {
    const Instant limit = std::min(lease.deadline, BootClock::now() + k_local_release);
    static_cast<void>(session_->release(limit, {}));
  }

  Status tell_shell(const Lease& lease) {
    outage_.tell_detour();
    const auto line = [&](const char* variable, const std::string& value) {
      return shell_export(variable, value, request_.shell);
    };
    std::string text = line("KLOCK_NAME", request_.name) + line("KLOCK_TOKEN", token_text(known_token())) +
                       line("KLOCK_FENCE", std::to_string(lease.fence)) +
                       line("KLOCK_MODE", std::string(mode_name(claim_.mode))) +
                       line("KLOCK_HELD", held_tokens(known_token()));
    // One that an earlier lease left is not the end of this hold.
    const bool ends = claim_.detached && outage_.ground() != Ground::nowhere;
    text += ends ? line("KLOCK_UNTIL", std::to_string(end_of(lease)))
                 : shell_unset("KLOCK_UNTIL", request_.shell);
    auto told = write_stdout(text);
    if (told)
      outage_.note_detour();
    else
      told.error().hint = "the lock is released again";
    return told;
  }

  KnownToken known_token() const { return {claim_.token, outage_.ground()}; }

  // When a lease that nobody renews ends, in seconds since 1970.
  std::int64_t end_of(const Lease& lease) const {
    const Duration left = std::min(lease.deadline, lease.acquired_at + claim_.ttl) - BootClock::now();
    return wall_ms() / 1000 + std::chrono::floor<seconds>(left).count();
  }

  void explain(const std::string& what) const {
    context_->say.explain(about(request_.name, what, context_->store->describe(), {}));
  }

  const AcquireRequest& request_;
  const Context* context_;
  const Settings& settings_;
  SignalDesk& desk_;
  const OtherProcess& shell_;
  Outage outage_;
  std::optional<Context> detour_;  // where we are instead, as the store is away
  int signal_ = SIGTERM;
  Claim claim_;
  std::unique_ptr<LockSession> session_;
  bool own_ = false;  // held by this shell itself
};

// Whom the hold is for. A hold without a keeper needs nobody, and can do without a shell that lives outside
// of our pid namespace.
Result<OtherProcess> find_shell(const AcquireRequest& request) {
  if (request.pid) return OtherProcess::open(*request.pid);
  auto shell = calling_shell();
  return shell || is_kept(request) ? std::move(shell) : OtherProcess::open(getpid());
}

Interruption acquire_for_shell(const AcquireRequest& request) {
  const auto fail = [&](const Error& error) {
    return Interruption{report_failure(request.flags, request.name, error)};
  };
  auto desk = SignalDesk::open();
  if (!desk) return fail(desk.error());
  // Before anything else: by now it is still the one that called us.
  const auto shell = find_shell(request);
  if (!shell) return fail(shell.error());
  const auto context = open_context(request.flags);
  if (!context) return fail(context.error());
  const auto end = ShellAcquisition(request, *context, *desk, *shell).run();
  if (end) return *end;
  return {report_failure(context->say, request.name, context->store->describe(), end.error())};
}

}  // namespace

int acquire(const AcquireRequest& request) {
  Interruption end{k_exit_internal};
  try {
    end = acquire_for_shell(request);
  } catch (const std::exception& fault) {
    // Here and not in main: the shell has to learn of it.
    end.status = report_failure(request.flags, request.name,
                                {ErrorKind::internal, std::string("internal error: ") + fault.what()});
  }
  // Nobody may be left to read it: the status tells the same.
  if (end.status != k_exit_ok) static_cast<void>(write_stdout(shell_failure(end.status, request.shell)));
  if (end.die_of != 0) die_of(end.die_of);
  return end.status;
}

}  // namespace klock
