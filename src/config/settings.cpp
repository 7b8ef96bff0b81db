// SPDX-License-Identifier: MIT
#include "config/settings.hpp"

#include "config/duration.hpp"
#include "config/parse_values.hpp"
#include "config/sources.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace klock {
namespace {

constexpr Duration k_shortest_ttl = std::chrono::milliseconds(200);
constexpr Duration k_default_ttl = std::chrono::seconds(15);
constexpr Duration k_default_kill_after = std::chrono::seconds(5);
constexpr Duration k_default_store_timeout = std::chrono::seconds(5);
constexpr Duration k_default_once_ttl = std::chrono::hours(30 * 24);
constexpr int k_default_conflict_status = 75;

// Replaces the default in `into` by what was given for `name`, if anything was. `parse` returns an optional.
template <class T, class Parse>
Status take(const RawValues& values, const char* name, Setting<T>& into, const char* expected, Parse parse) {
  const auto given = values.find(name);
  if (given == values.end()) return {};
  auto value = parse(given->second.value);
  if (!value) return wrong_value(given->second, name, "'" + given->second.value + "' is not " + expected);
  into = {*std::move(value), given->second.origin, given->second.where};
  return {};
}

// Where the working directory is unknown, as it is.
std::string absolute_path(const std::string& path) {
  std::array<char, PATH_MAX> here{};
  if (path.empty() || path.front() == '/' || ::getcwd(here.data(), here.size()) == nullptr) return path;
  return std::string(here.data()) + "/" + path;
}

Status take_duration(const RawValues& values, const char* name, Setting<Duration>& into) {
  return take(values, name, into, "a duration (500ms, 15s, 2m, 1.5h, 1d; at most 365d)", parse_duration);
}

Status take_wait(const RawValues& values, Settings& settings) {
  Setting<Duration> wait;
  KLOCK_CHECK(take_duration(values, "wait", wait));
  if (wait.origin != Origin::built_in) settings.wait = {wait.value, wait.origin, wait.where};
  return {};
}

Status take_max_waiters(const RawValues& values, Settings& settings) {
  Setting<std::size_t> most;
  KLOCK_CHECK(take(values, "max-waiters", most, "a number of waiters, 0 or more", parse_count));
  if (most.origin != Origin::built_in) settings.max_waiters = {most.value, most.origin, most.where};
  return {};
}

Status take_durations(const RawValues& values, Settings& settings) {
  settings.ttl.value = k_default_ttl;
  settings.store_timeout.value = k_default_store_timeout;
  KLOCK_CHECK(take_wait(values, settings));
  KLOCK_CHECK(take_duration(values, "ttl", settings.ttl));
  KLOCK_CHECK(take_duration(values, "kill-after", settings.kill_after));
  KLOCK_CHECK(take_duration(values, "store-timeout", settings.store_timeout));
  KLOCK_CHECK(take_duration(values, "max-hold", settings.max_hold));
  KLOCK_CHECK(take_duration(values, "min-hold", settings.min_hold));
  settings.once_ttl.value = k_default_once_ttl;
  KLOCK_CHECK(take_duration(values, "once-ttl", settings.once_ttl));
  if (settings.once_ttl.value == Duration::zero())
    return wrong_value(settings.once_ttl, "once-ttl", "a marker that lives for no time marks nothing");
  settings.kill_after_given = settings.kill_after.origin != Origin::built_in;
  if (settings.ttl.value < k_shortest_ttl)
    return wrong_value(settings.ttl, "ttl", "a lease must last at least " + format_duration(k_shortest_ttl),
                       "shorter ones are lost to a pause of the machine or the network");
  if (settings.store_timeout.value == Duration::zero())
    return wrong_value(settings.store_timeout, "store-timeout", "no store answers in no time at all");
  if (!settings.kill_after_given) {
    const auto third = std::chrono::floor<std::chrono::milliseconds>(settings.ttl.value / 3);
    settings.kill_after.value = std::min<Duration>(k_default_kill_after, third);
  }
  return {};
}

Status take_texts(const RawValues& values, Settings& settings) {
  settings.prefix.value = "klock:";
  settings.signal.value = "TERM";
  const auto any = [](const std::string& text) { return std::optional<std::string>(text); };
  KLOCK_CHECK(take(values, "prefix", settings.prefix,
                   "a prefix (at most 100 bytes, no spaces or control characters)", parse_prefix));
  KLOCK_CHECK(
      take(values, "signal", settings.signal, "a signal (USR1, SIGUSR1 or a number)", parse_signal_text));
  KLOCK_CHECK(take(values, "message", settings.message, "a text", any));
  const auto some = [&](const std::string& text) { return text.empty() ? std::nullopt : any(text); };
  KLOCK_CHECK(take(values, "outcome-file", settings.outcome_file, "a file name", some));
  KLOCK_CHECK(
      take(values, "group", settings.group, "a name of a group (at most 200 bytes, no spaces)", parse_group));
  KLOCK_CHECK(take(values, "audit-file", settings.audit_file, "a file name", some));
  settings.audit_file.value = absolute_path(settings.audit_file.value);  // a keeper changes its directory
  KLOCK_CHECK(take(values, "sentinel-user", settings.sentinel_user, "a user's name", some));
  return {};
}

// The certificate and its key belong together, wherever each of them was given.
Status take_tls(const RawValues& values, Settings& settings) {
  const auto some = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string>(text);
  };
  KLOCK_CHECK(take(values, "tls-ca", settings.tls_ca, "the name of a file or directory", some));
  KLOCK_CHECK(take(values, "tls-cert", settings.tls_cert, "a file name", some));
  KLOCK_CHECK(take(values, "tls-key", settings.tls_key, "a file name", some));
  KLOCK_CHECK(take(values, "tls-server-name", settings.tls_server_name,
                   "a host name or address, as it stands in a certificate", parse_server_name));
  if (settings.tls_key.value.empty() && !settings.tls_cert.value.empty())
    return wrong_value(settings.tls_cert, "tls-cert", "a certificate without its key", "give tls-key too");
  if (settings.tls_cert.value.empty() && !settings.tls_key.value.empty())
    return wrong_value(settings.tls_key, "tls-key", "a key without its certificate", "give tls-cert too");
  for (Setting<std::string>* file : {&settings.tls_ca, &settings.tls_cert, &settings.tls_key})
    file->value = absolute_path(file->value);  // a keeper changes its directory
  return {};
}

Status take_choices(const RawValues& values, Settings& settings) {
  settings.conflict_exit_code.value = k_default_conflict_status;
  KLOCK_CHECK(take(values, "conflict-exit-code", settings.conflict_exit_code, "an exit status from 0 to 255",
                   parse_exit_status));
  KLOCK_CHECK(take(values, "skip-exit-code", settings.skip_exit_code, "an exit status from 0 to 255",
                   parse_exit_status));
  KLOCK_CHECK(take_max_waiters(values, settings));
  KLOCK_CHECK(
      take(values, "wait-replicas", settings.wait_replicas, "a number of replicas, 0 or more", parse_count));
  KLOCK_CHECK(take(values, "tree", settings.tree, "1 or 0", parse_switch));
  KLOCK_CHECK(take(values, "on-lost", settings.on_lost, "'stop' or 'warn'", parse_on_lost));
  KLOCK_CHECK(take(values, "on-gone", settings.on_gone, "'lost' or 'reclaim'", parse_on_gone));
  KLOCK_CHECK(take(values, "if-unavailable", settings.if_unavailable, "'fail', 'wait', 'local' or 'run'",
                   parse_if_unavailable));
  KLOCK_CHECK(
      take(values, "record-command", settings.record_command, "'name' or 'full'", parse_record_command));
  return take(values, "verbosity", settings.verbosity, "-1, 0 or 1", parse_verbosity);
}

// Whoever gives them believes that what is sent is encrypted.
Status refuse_tls_flags(const Settings& settings) {
  for (const auto* setting :
       {&settings.tls_ca, &settings.tls_cert, &settings.tls_key, &settings.tls_server_name})
    if (setting->origin == Origin::flag)
      return failure(ErrorKind::usage, setting->where + " is for a URL with TLS, such as rediss://HOST");
  return {};
}

Status take_url(const RawValues& values, Settings& settings) {
  Setting<std::string> text{"local:"};
  if (const auto given = values.find("url"); given != values.end()) text = given->second;
  Result<StoreUrl> url = parse_store_url(text.value);
  if (!url && text.origin == Origin::flag && shows_password(text.value)) return password_in_flag();
  if (!url) return wrong_value(text, "url", url.error().what, url.error().hint);
  settings.url = *std::move(url);
  bool in_the_clear = false;
  for (RedisUrl* const server : servers_of(settings.url)) {
    in_the_clear = !server->tls;  // all are alike
    if (in_the_clear) continue;
    server->tls = TlsSettings{settings.tls_ca.value, settings.tls_cert.value, settings.tls_key.value,
                              settings.tls_server_name.value};
  }
  if (in_the_clear) KLOCK_CHECK(refuse_tls_flags(settings));
  settings.url_text = {redact_url(text.value), text.origin, text.where};
  return take_password(settings);
}

template <class T>
std::string line(const char* name, const std::string& value, const Setting<T>& setting) {
  return std::string(name) + " " + value + " (" + setting.where + ")";
}

std::string line(const char* name, const Setting<Duration>& setting) {
  return line(name, format_duration(setting.value), setting);
}

// Unless it is empty.
void add_text(std::vector<std::string>& lines, const char* name, const Setting<std::string>& setting) {
  if (!setting.value.empty()) lines.push_back(line(name, setting.value, setting));
}

}  // namespace

Result<Settings> load_settings(const RawValues& flags) {
  Settings settings;
  KLOCK_TRY(values, collect_values(flags));
  KLOCK_CHECK(take_durations(values, settings));
  KLOCK_CHECK(take_texts(values, settings));
  KLOCK_CHECK(take_choices(values, settings));
  KLOCK_CHECK(take_tls(values, settings));
  KLOCK_CHECK(take_url(values, settings));
  return settings;
}

Status check_kill_after(const Settings& settings) {
  if (settings.kill_after.value <= settings.ttl.value / 3) return {};
  const bool from_flag = std::max(settings.kill_after.origin, settings.ttl.origin) == Origin::flag;
  return failure(from_flag ? ErrorKind::usage : ErrorKind::config,
                 "kill-after " + format_duration(settings.kill_after.value) + " (" +
                     settings.kill_after.where + ") is more than a third of the lease, ttl " +
                     format_duration(settings.ttl.value) + " (" + settings.ttl.where +
                     "), so a stop could outlast it",
                 "--ttl " + format_duration(settings.kill_after.value * 3) + " would do");
}

std::vector<std::string> describe_settings(const Settings& settings) {
  const std::optional<Duration>& wait = settings.wait.value;
  std::vector<std::string> lines{
      line("url", settings.url_text.value, settings.url_text),
      line("prefix", settings.prefix.value, settings.prefix),
      line("wait", wait ? format_duration(*wait) : "for ever", settings.wait),
      line("ttl", settings.ttl),
      line("kill-after", settings.kill_after),
      line("signal", settings.signal.value, settings.signal),
      line("on-lost", settings.on_lost.value == OnLost::stop ? "stop" : "warn", settings.on_lost),
      line("on-gone", settings.on_gone.value == OnGone::lost ? "lost" : "reclaim", settings.on_gone),
      line("if-unavailable", if_unavailable_text(settings.if_unavailable.value), settings.if_unavailable),
      line("store-timeout", settings.store_timeout),
      line("conflict-exit-code", std::to_string(settings.conflict_exit_code.value),
           settings.conflict_exit_code)};
  add_text(lines, "message", settings.message);
  add_text(lines, "sentinel-user", settings.sentinel_user);
  add_text(lines, "tls-ca", settings.tls_ca);
  add_text(lines, "tls-cert", settings.tls_cert);
  add_text(lines, "tls-key", settings.tls_key);
  add_text(lines, "tls-server-name", settings.tls_server_name);
  if (settings.wait_replicas.value > 0)
    lines.push_back(
        line("wait-replicas", std::to_string(settings.wait_replicas.value), settings.wait_replicas));
  if (settings.max_hold.value != Duration::zero()) lines.push_back(line("max-hold", settings.max_hold));
  if (settings.min_hold.value != Duration::zero()) lines.push_back(line("min-hold", settings.min_hold));
  if (settings.max_waiters.value)
    lines.push_back(line("max-waiters", std::to_string(*settings.max_waiters.value), settings.max_waiters));
  if (settings.once_ttl.origin != Origin::built_in) lines.push_back(line("once-ttl", settings.once_ttl));
  if (settings.skip_exit_code.origin != Origin::built_in)
    lines.push_back(
        line("skip-exit-code", std::to_string(settings.skip_exit_code.value), settings.skip_exit_code));
  if (settings.tree.value) lines.push_back(line("tree", "on", settings.tree));
  add_text(lines, "outcome-file", settings.outcome_file);
  add_text(lines, "audit-file", settings.audit_file);
  add_text(lines, "group", settings.group);
  if (settings.record_command.value == RecordCommand::full)
    lines.push_back(line("record-command", "full", settings.record_command));
  lines.insert(lines.end(), settings.remarks.begin(), settings.remarks.end());
  return lines;
}

}  // namespace klock
