// SPDX-License-Identifier: MIT
#include "commands/waiting.hpp"

#include "output/human_time.hpp"
#include "util/exit_status.hpp"

#include <algorithm>

namespace klock {
namespace {

constexpr Duration k_reconnect = std::chrono::seconds(30);

std::string time_left(const Busy& busy) {
  if (!busy.holder || !busy.holder->expires_in) return {};
  return " for " + human_duration(*busy.holder->expires_in) + " more";
}

// Why the lock was not acquired.
std::string busy_text(const Busy& busy) {
  if (busy.full && busy.ahead > 0)
    return "busy: " + std::to_string(busy.ahead) + (busy.ahead == 1 ? " is" : " are") + " waiting already";
  if (busy.cooldown) return "busy: nobody runs, but --min-hold keeps the name taken" + time_left(busy);
  return busy.holder ? "busy, held by " + describe_holder(*busy.holder) : "busy";
}

}  // namespace

WaitPolicy wait_policy(const Settings& settings, Instant begun) {
  WaitPolicy policy;
  policy.wait = settings.wait.value != Duration::zero();
  if (settings.wait.value) policy.limit = begun + *settings.wait.value;
  policy.first_contact = settings.store_timeout.value;
  policy.reconnect = std::max(k_reconnect, settings.ttl.value);
  policy.outlast = settings.if_unavailable.value == IfUnavailable::wait;
  return policy;
}

void report_busy(const Context& context, const std::string& name, const Busy& busy, bool waited, int status) {
  const Setting<std::optional<Duration>>& wait = context.settings.wait;
  const std::string hint = wait.origin == Origin::flag ? "without " + wait.where + " it waits"
                                                       : "it does not wait because of " + wait.where;
  const std::string text =
      about(name, busy_text(busy), context.store->describe(), waited || busy.full ? "" : hint);
  if (status == k_exit_ok)
    context.say.explain(text);
  else
    context.say.tell(text);
}

Interruption interruption(int signal) {
  const bool by_dying = signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
  return {k_exit_signal + signal, by_dying ? signal : 0};
}

Interruption report_interruption(const Context& context, const std::string& name, SignalDesk& desk) {
  const auto signal = desk.take();
  const int number = signal ? static_cast<int>(signal->ssi_signo) : SIGTERM;
  context.say.explain(
      about(name, "interrupted by " + signal_name(number) + " while waiting", context.store->describe(), {}));
  return interruption(number);
}

}  // namespace klock
