// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/waiting.hpp"
#include "commands/waiting_line.hpp"
#include "util/exit_status.hpp"

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;

constexpr Duration k_first_look = milliseconds(20);
constexpr Duration k_longest_look = milliseconds(500);
constexpr Duration k_slack = milliseconds(5);  // past an expiry, before looking

// What the files say about waiting is meant for those who take locks.
Settings with_own_wait(Settings settings) {
  if (settings.wait.origin != Origin::flag) settings.wait = {};
  if (settings.conflict_exit_code.origin != Origin::flag) settings.conflict_exit_code.value = k_exit_busy;
  return settings;
}

Busy to_busy(LockState state) {
  Busy busy;
  busy.cooldown = state.occupancy == Occupancy::cooldown;
  busy.ahead = state.waiters.size();
  if (!state.holders.empty()) busy.holder = std::move(state.holders.front());
  return busy;
}

// Looks again and again until nobody holds the lock, and never takes it.
class FreedomWatch {
 public:
  FreedomWatch(const std::string& name, const Context& context, const LockName& lock, SignalDesk& desk)
      : name_(name),
        context_(context),
        lock_(lock),
        desk_(desk),
        settings_(with_own_wait(context.settings)),
        policy_(wait_policy(settings_, begun_)),
        line_(context.say, name, context.store->describe(), begun_) {}

  Result<Interruption> run() {
    for (Duration pause = k_first_look;; pause = std::min(2 * pause, k_longest_look)) {
      KLOCK_TRY(state, look());
      if (state && state->occupancy == Occupancy::free) return Interruption{k_exit_ok};
      if (!state && !away_) return report_interruption(context_, name_, desk_);
      const Instant now = BootClock::now();
      Instant again = std::min(now + pause, policy_.limit);
      if (state) {
        busy_ = to_busy(std::move(*state));
        line_(busy_);
        if (busy_.holder && busy_.holder->expires_in)
          again = std::min<Instant>(again, now + *busy_.holder->expires_in + k_slack);
      }
      if (away_ && now >= policy_.limit) return tl::unexpected(*std::move(away_));
      if (!policy_.wait || now >= policy_.limit) {
        const int status = settings_.conflict_exit_code.value;
        report_busy(context_, name_, busy_, true, status);
        return Interruption{status};
      }
      if (wait_ready(-1, 0, again, Interrupt{desk_.fd()}) == Ready::interrupted)
        return report_interruption(context_, name_, desk_);
    }
  }

 private:
  // The last look comes at the limit.
  Instant look_deadline() const {
    if (!seen_at_) return policy_.contact_deadline();
    const Instant last = std::max<Instant>(policy_.limit, BootClock::now() + k_longest_look);
    return std::min(store_deadline(settings_), last);
  }

  // nullopt: the store is `away_` but may come back, or else a signal came.
  Result<std::optional<LockState>> look() {
    auto state = context_.store->inspect(lock_, look_deadline(), Interrupt{desk_.fd()});
    const Instant now = BootClock::now();
    if (state) {
      away_.reset();
      seen_at_ = now;
      return std::optional<LockState>(std::move(*state));
    }
    const bool interrupted = wait_ready(-1, 0, now, Interrupt{desk_.fd()}) == Ready::interrupted;
    const bool passing = may_pass(state.error().kind) && seen_at_ && now - *seen_at_ < policy_.reconnect;
    if (interrupted) {
      away_.reset();
      return std::nullopt;
    }
    if (passing) {
      away_ = std::move(state).error();
      return std::nullopt;
    }
    return tl::unexpected(std::move(state).error());
  }

  const std::string& name_;
  const Context& context_;
  const LockName& lock_;
  SignalDesk& desk_;
  const Instant begun_ = BootClock::now();
  const Settings settings_;
  const WaitPolicy policy_;
  WaitingLine line_;
  Busy busy_;
  std::optional<Instant> seen_at_;
  std::optional<Error> away_;
};

}  // namespace

int wait_until_free(const WaitRequest& request) {
  auto desk = SignalDesk::open();
  if (!desk) return report_failure(request.flags, request.name, desk.error());
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, request.name, context.error());
  const auto fail = [&](const Error& error) {
    return report_failure(context->say, request.name, context->store->describe(), error);
  };
  const auto lock = make_lock_name(context->settings.prefix.value, request.name, request.key);
  if (!lock) return fail(lock.error());
  const auto end = FreedomWatch(request.name, *context, *lock, *desk).run();
  if (!end) return fail(end.error());
  if (end->die_of != 0) die_of(end->die_of);
  return end->status;
}

}  // namespace klock
