// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "output/escape.hpp"
#include "output/state_text.hpp"
#include "output/stdout.hpp"
#include "util/exit_status.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace klock {
namespace {

constexpr std::size_t k_longest_shown = 800;  // only what another program has written is longer

Result<std::vector<LockState>> look_at(const Context& context, const StatusRequest& request) {
  if (request.names.empty()) return context.store->list({}, store_deadline(context.settings), {});
  std::vector<LockState> states;
  for (const std::string& name : request.names) {
    KLOCK_TRY(lock, make_lock_name(context.settings.prefix.value, name, request.key));
    KLOCK_TRY(state, context.store->inspect(lock, store_deadline(context.settings), {}));
    states.push_back(std::move(state));
  }
  return states;
}

// Leaves of every lock the holds that have lasted for at least `age`, and of the locks those that have such
// holds. Returns how many holds were left out because nobody knows since when they last.
std::size_t keep_older(std::vector<LockState>& states, Duration age) {
  std::size_t unknown = 0;
  for (LockState& state : states)
    std::erase_if(state.holders, [&](const Holder& holder) {
      if (holder.cooldown) return true;
      if (!holder.held) ++unknown;
      return !holder.held || *holder.held < age;
    });
  std::erase_if(states, [](const LockState& state) { return state.holders.empty(); });
  return unknown;
}

// For somebody who looks; a script has asked for those that are known to be old.
void tell_unknown(const Context& context, std::size_t count) {
  if (count == 0 || (!context.say.verbose() && isatty(STDERR_FILENO) == 0)) return;
  const std::string holds = count == 1 ? "1 hold" : std::to_string(count) + " holds";
  context.say.tell(about("list", holds + " of unknown age left out", context.store->describe(),
                         "see them with klock list"));
}

}  // namespace

int status(const StatusRequest& request) {
  const std::string subject = request.names.size() == 1 ? request.names[0] : "status";
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, subject, context.error());
  const auto states = look_at(*context, request);
  if (!states) return report_failure(context->say, subject, context->store->describe(), states.error());
  const std::string where = context->store->describe();
  if (const auto written =
          write_stdout(request.json ? status_json(*states, where) : status_text(*states, where));
      !written)
    return report_failure(context->say, subject, {}, written.error());
  const bool taken = std::any_of(states->begin(), states->end(),
                                 [](const LockState& state) { return state.occupancy != Occupancy::free; });
  return taken ? k_exit_ok : k_exit_no;
}

int list(const ListRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, "list", context.error());
  auto states = context->store->list(request.pattern, store_deadline(context->settings), {});
  const std::string where = context->store->describe();
  if (!states) return report_failure(context->say, "list", where, states.error());
  if (request.older_than) tell_unknown(*context, keep_older(*states, *request.older_than));
  std::string text;
  if (request.names_only)
    for (const LockState& state : *states)
      text += terminal_safe(std::string_view(state.lock.name).substr(0, k_longest_shown)) + "\n";
  else
    text = request.json ? status_json(*states, where) : list_text(*states);
  if (const auto written = write_stdout(text); !written)
    return report_failure(context->say, "list", {}, written.error());
  return k_exit_ok;
}

}  // namespace klock
