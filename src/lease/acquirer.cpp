// SPDX-License-Identifier: MIT
#include "lease/acquirer.hpp"

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;

// Enough for one round trip; a request that was sent counts even if its reply comes too late for us.
constexpr Duration k_withdraw_time = milliseconds(150);
// Enough to send it to a store that has been silent.
constexpr Duration k_parting_time = milliseconds(20);
constexpr Duration k_first_pause = milliseconds(50);
constexpr Duration k_longest_pause = milliseconds(1000);

class Wait {
 public:
  Wait(LockSession& session, const WaitPolicy& policy, Interrupt interrupt, const WaitObserver& observer)
      : session_(session), policy_(policy), interrupt_(interrupt), observer_(observer) {}

  Result<Acquisition> run() {
    for (;;) {
      const Instant deadline = policy_.contact_deadline();
      auto attempt = session_.attempt(policy_.wait, deadline, interrupt_);
      if (!attempt) {
        // What was cut short tells less than what was wrong before.
        const bool silent = BootClock::now() >= deadline;
        if (!silent || !away_since_) error_ = std::move(attempt).error();
        if (auto end = after_error(silent ? k_parting_time : k_withdraw_time)) return std::move(*end);
        continue;
      }
      if (!std::holds_alternative<Interrupted>(*attempt)) is_back();
      if (const auto* lease = std::get_if<Lease>(&*attempt)) return Acquisition(*lease);
      if (std::holds_alternative<Interrupted>(*attempt)) return give_up(Interrupted{});
      if (auto* done = std::get_if<Completed>(&*attempt)) return give_up(std::move(*done));
      busy_ = std::get<Busy>(std::move(*attempt));
      pause_ = k_first_pause;
      if (!policy_.wait || busy_->full) return Acquisition(*busy_);
      if (auto end = sleep()) return std::move(*end);
    }
  }

 private:
  using End = std::optional<Result<Acquisition>>;

  Result<Acquisition> give_up(Acquisition outcome) {
    session_.withdraw(BootClock::now() + k_withdraw_time);
    return outcome;
  }

  // The limit is reached: who has it now? This leaves the queue as well.
  Result<Acquisition> look_last() {
    const Instant deadline = BootClock::now() + k_withdraw_time;
    auto last = session_.attempt(false, deadline, interrupt_);
    if (last && std::holds_alternative<Lease>(*last)) return Acquisition(std::get<Lease>(*last));
    if (last && std::holds_alternative<Busy>(*last)) return Acquisition(std::get<Busy>(*std::move(last)));
    session_.explain_end(last ? EventKind::gave_up : EventKind::timed_out, {});
    session_.withdraw(deadline);
    if (last && std::holds_alternative<Completed>(*last))
      return Acquisition(std::get<Completed>(*std::move(last)));
    if (last) return Acquisition(Interrupted{});
    return Acquisition(*busy_);
  }

  void is_away(const Error& error) {
    if (away_since_) return;
    away_since_ = BootClock::now();
    if (policy_.on_away) policy_.on_away(error);
  }
  void is_back() {
    if (!away_since_) return;
    if (policy_.on_back) policy_.on_back(BootClock::now() - *away_since_);
    away_since_.reset();
  }

  // A store that never answered is unreachable; a waiter that has its place looks for the store a while
  // longer.
  End after_error(Duration parting) {
    session_.explain_end(EventKind::gave_up, error_.what);
    const bool waits = busy_ || (policy_.outlast && policy_.wait);
    const Instant now = BootClock::now();
    const bool in_vain = away_since_ && !policy_.outlast && now - *away_since_ >= policy_.reconnect;
    if (!waits || in_vain || now >= policy_.limit || !may_pass(error_.kind)) {
      session_.withdraw(now + parting);
      return Result<Acquisition>(tl::unexpected(std::move(error_)));
    }
    is_away(error_);
    if (wait_ready(-1, 0, std::min(policy_.limit, now + pause_), interrupt_) == Ready::interrupted)
      return give_up(Interrupted{});
    pause_ = std::min(2 * pause_, k_longest_pause);
    return std::nullopt;
  }

  // Until it is time for another attempt.
  End sleep() {
    const Instant look = std::min(policy_.limit, busy_->look_again);
    Instant tell = observer_ ? observer_(*busy_) : k_never;
    for (;;) {
      auto wake = session_.await_news(std::min(look, tell), interrupt_);
      if (!wake) {
        error_ = std::move(wake).error();
        return after_error(k_withdraw_time);
      }
      if (*wake == Wake::interrupted) return give_up(Interrupted{});
      const Instant now = BootClock::now();
      if (now >= policy_.limit) return look_last();
      if (*wake == Wake::news || now >= look) return std::nullopt;
      if (now >= tell) tell = observer_(*busy_);
    }
  }

  LockSession& session_;
  const WaitPolicy& policy_;
  const Interrupt interrupt_;
  const WaitObserver& observer_;
  std::optional<Busy> busy_;  // set once the store has answered
  std::optional<Instant> away_since_;
  Error error_{ErrorKind::internal, {}};  // why it is away
  Duration pause_ = k_first_pause;
};

}  // namespace

Result<Acquisition> acquire(LockSession& session, const WaitPolicy& policy, Interrupt interrupt,
                            const WaitObserver& observer) {
  return Wait(session, policy, interrupt, observer).run();
}

}  // namespace klock
