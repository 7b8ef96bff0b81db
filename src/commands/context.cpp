// SPDX-License-Identifier: MIT
#include "commands/context.hpp"

#include "journal/recording_store.hpp"
#include "store/open.hpp"
#include "supervise/signals.hpp"
#include "util/exit_status.hpp"

#include <atomic>

namespace klock {

namespace {

// What went wrong with the first event goes wrong with the others.
void tell_once(const Messenger& say, const std::string& text) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) say.tell(text);
}

// A store that notes events itself is left alone unless they go to a file as well: a start should not pay for
// it.
std::unique_ptr<LockStore> open_recorded_store(const StoreUrl& url, const Settings& settings,
                                               const Messenger& say) {
  auto store = open_store(url, settings.prefix.value);
  const std::string& file = settings.audit_file.value;
  if (store->notes_events() && file.empty()) return store;
  return record_events(std::move(store),
                       {file, [say](const Error& error) { tell_once(say, about({}, error, {})); },
                        [say](const Error& error) { say.explain(about({}, error, {})); }});
}

}  // namespace

Result<Context> open_context(const RawValues& flags) {
  KLOCK_TRY(settings, load_settings(flags));
  Context context;
  context.say = Messenger(settings.verbosity.value);
  if (context.say.verbose())
    for (const std::string& line : describe_settings(settings)) context.say.explain(line);
  context.store = open_recorded_store(settings.url, settings, context.say);
  context.settings = std::move(settings);
  return context;
}

std::unique_ptr<LockStore> open_host_store(const Context& context) {
  return open_recorded_store(LocalUrl{}, context.settings, context.say);
}

int report_failure(const Messenger& say, const std::string& name, const std::string& store,
                   const Error& error) {
  const std::string text = about(name, error, store);
  if (error.kind == ErrorKind::usage || error.kind == ErrorKind::config)
    say.usage(text);
  else
    say.tell(text);
  return exit_status(error.kind);
}

int report_failure(const RawValues& flags, const std::string& name, const Error& error) {
  return report_failure(Messenger(flags.contains("quiet") ? -1 : 0), name, {}, error);
}

Instant store_deadline(const Settings& settings) {
  return BootClock::now() + settings.store_timeout.value;
}

Result<int> stop_signal(const Settings& settings) {
  const Setting<std::string>& signal = settings.signal;
  if (const auto number = parse_signal(signal.value)) return *number;
  return failure(signal.origin == Origin::flag ? ErrorKind::usage : ErrorKind::config,
                 signal.where + ": no such signal: " + signal.value, "use a name such as TERM or a number");
}

Result<std::string> chosen_group(const Settings& settings) {
  const Setting<std::string>& group = settings.group;
  const auto fits = group.value.empty() ? Status{} : check_once_key(group.value);
  if (fits) return group.value;
  return failure(group.origin == Origin::flag ? ErrorKind::usage : ErrorKind::config,
                 group.where + ": no name for a group: '" + group.value + "'",
                 "1 to 200 bytes of UTF-8 without spaces and control characters");
}

Result<std::size_t> chosen_replicas(const Settings& settings) {
  const Setting<std::size_t>& replicas = settings.wait_replicas;
  const bool local = std::holds_alternative<LocalUrl>(settings.url);
  if (replicas.value == 0 || !(local || std::holds_alternative<RedlockUrl>(settings.url)))
    return replicas.value;
  return failure(replicas.origin == Origin::flag ? ErrorKind::usage : ErrorKind::config,
                 replicas.where + (local ? ": the store of this host has no replicas"
                                         : ": it does not go with a Redlock, whose servers are no replicas"));
}

std::string who_am_i() {
  const Person self = describe_self({}, {});
  return self.user + "@" + self.host;
}

}  // namespace klock
