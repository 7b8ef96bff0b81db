// SPDX-License-Identifier: MIT
#include "cli/requests.hpp"

#include "cli/given.hpp"
#include "config/duration.hpp"
#include "output/shell_quote.hpp"

namespace klock {
namespace {

constexpr Duration k_shortest_interval = std::chrono::milliseconds(100);

Status add_once(const ParsedWords& words, RunRequest& request) {
  request.once = value_of(words, "once");
  request.unless = value_of(words, "unless");
  if (request.once && request.mode != Mode::exclusive)
    return usage_error("--once needs the lock alone: with " +
                       std::string(request.mode == Mode::shared ? "-s" : "--slots") +
                       " several would do the work at once");
  if (request.once)
    KLOCK_CHECK(check_once_key(*request.once));
  else if (is_given(words, "once-ttl"))
    return usage_error("--once-ttl goes with --once");
  if (request.unless && request.unless->empty())
    return usage_error("--unless: the check is empty; is a shell variable unset?");
  return {};
}

Status check_command(const RunRequest& request) {
  if (!request.shell_command && request.command.empty())
    return usage_error("'" + request.name + "' was taken as the lock's name, and no command follows it");
  if (!request.shell_command || request.command.empty()) return {};
  std::string all = *request.shell_command;
  for (const std::string& word : request.command) all += " " + word;
  return usage_error("-c takes the whole shell command as one word: klock run " + request.name + " -c " +
                     shell_quoted(all));
}

Result<WatchSort> sort_of(const ParsedWords& words) {
  const std::string text = value_of(words, "sort").value_or("name");
  if (text == "name") return WatchSort::name;
  if (text == "age") return WatchSort::age;
  if (text == "left") return WatchSort::left;
  if (text == "waiters") return WatchSort::waiters;
  return usage_error("--sort: '" + text + "' is none of name, age, left, waiters");
}

}  // namespace

Result<ParsedWords> parse_words(const Syntax& syntax, std::span<const std::string> words) {
  KLOCK_TRY(split, split_words(syntax, words));
  KLOCK_TRY(options, parse_options(syntax, split.own));
  return ParsedWords{std::move(split), std::move(options)};
}

Result<RunRequest> run_request(const ParsedWords& words) {
  if (words.operands.empty()) return usage_error("the lock's NAME is missing");
  RunRequest request;
  request.flags = flags_of(words);
  KLOCK_CHECK(add_nonblock(words, request.flags));
  request.name = words.operands.front();
  KLOCK_TRY(key, key_of(words));
  request.key = std::move(key);
  KLOCK_TRY(choice, mode_of(words));
  request.mode = choice.mode;
  request.slots = choice.slots;
  KLOCK_CHECK(add_once(words, request));
  for (const GivenOption& given : words.options)
    if (given.option->name == "also") request.also.push_back(given.value);
  request.command = words.command;
  request.shell_command = value_of(words, {}, 'c');
  KLOCK_CHECK(check_command(request));
  return request;
}

Result<OnceRequest> once_request(const ParsedWords& words) {
  const std::string what = words.operands.empty() ? std::string() : words.operands.front();
  if ((what != "show" && what != "clear") || words.operands.size() != 3)
    return usage_error("once takes 'show' or 'clear', then NAME and KEY");
  OnceRequest request;
  request.flags = flags_of(words);
  request.what = what == "show" ? OnceRequest::What::show : OnceRequest::What::clear;
  request.name = words.operands[1];
  request.once = words.operands[2];
  KLOCK_CHECK(check_once_key(request.once));
  KLOCK_TRY(key, key_of(words));
  request.key = std::move(key);
  request.json = is_given(words, "json");
  return request;
}

Result<StatusRequest> status_request(const ParsedWords& words) {
  KLOCK_TRY(key, key_of(words));
  if (key && words.operands.size() != 1) return usage_error("--key goes with exactly one NAME");
  return StatusRequest{flags_of(words), words.operands, std::move(key), is_given(words, "json")};
}

Result<ListRequest> list_request(const ParsedWords& words) {
  if (is_given(words, "key")) return usage_error("--key is one lock: use 'klock status --key KEY NAME'");
  if (words.operands.size() > 1)
    return usage_error("list takes one PATTERN; quote it, or the shell expands it");
  if (is_given(words, "json") && is_given(words, "names"))
    return usage_error("--json and --names contradict each other");
  KLOCK_TRY(older_than, duration_of(words, "older-than"));
  return ListRequest{flags_of(words), words.operands.empty() ? std::string() : words.operands.front(),
                     is_given(words, "json"), is_given(words, "names"), older_than};
}

Result<WatchRequest> watch_request(const ParsedWords& words) {
  if (is_given(words, "key")) return usage_error("--key is one lock: use 'klock status --key KEY NAME'");
  if (is_given(words, "json")) return usage_error("watch is for people: use 'klock list --json'");
  if (words.operands.size() > 1)
    return usage_error("watch takes one PATTERN; quote it, or the shell expands it");
  WatchRequest request;
  request.flags = flags_of(words);
  if (!words.operands.empty()) request.pattern = words.operands.front();
  KLOCK_TRY(interval, duration_of(words, "interval"));
  request.interval = interval.value_or(request.interval);
  if (request.interval < k_shortest_interval)
    return usage_error("--interval: at least " + format_duration(k_shortest_interval));
  KLOCK_TRY(sort, sort_of(words));
  request.sort = sort;
  request.once = is_given(words, "once");
  return request;
}

Result<ForceReleaseRequest> force_release_request(const ParsedWords& words) {
  if (words.operands.size() != 1) return usage_error("force-release takes exactly one NAME");
  KLOCK_TRY(key, key_of(words));
  ForceReleaseRequest request;
  request.flags = flags_of(words);
  request.name = words.operands.front();
  request.key = std::move(key);
  request.id = value_of(words, "id");
  request.reason = value_of(words, "reason").value_or("");
  request.yes = is_given(words, "yes");
  request.now = is_given(words, "now");
  request.stale = is_given(words, "stale");
  if (request.id && request.id->empty()) return usage_error("--id is empty");
  return request;
}

Result<LogRequest> log_request(const ParsedWords& words) {
  if (words.operands.size() > 1)
    return usage_error("log takes one NAME or pattern; quote it, or the shell expands it");
  KLOCK_TRY(key, key_of(words));
  if (key && !words.operands.empty()) return usage_error("--key and a NAME contradict each other");
  LogRequest request;
  request.flags = flags_of(words);
  request.pattern = words.operands.empty() ? std::string() : words.operands.front();
  request.key = std::move(key);
  KLOCK_TRY(since, duration_of(words, "since"));
  request.since = since;
  request.follow = is_given(words, "follow");
  request.json = is_given(words, "json");
  request.timeline = is_given(words, "timeline");
  if (request.timeline && (request.follow || request.json))
    return usage_error("--timeline is a picture of what has been: it goes with neither --follow nor --json");
  return request;
}

Result<StatsRequest> stats_request(const ParsedWords& words) {
  if (is_given(words, "key")) return usage_error("stats are of groups of locks: --key means nothing");
  if (words.operands.size() > 1)
    return usage_error("stats takes one GROUP or pattern; quote it, or the shell expands it");
  StatsRequest request{flags_of(words), words.operands.empty() ? std::string() : words.operands.front(),
                       is_given(words, "json"), is_given(words, "prometheus")};
  if (request.json && request.prometheus) return usage_error("--json and --prometheus contradict each other");
  return request;
}

Result<DoctorRequest> doctor_request(const ParsedWords& words) {
  if (is_given(words, "key"))
    return usage_error("doctor looks at the store, not at one lock: --key means nothing");
  if (!words.operands.empty())
    return usage_error("doctor takes no words, but got '" + words.operands[0] + "'");
  return DoctorRequest{flags_of(words), is_given(words, "json")};
}

Result<std::string> completion_request(const ParsedWords& words) {
  if (words.operands.size() != 1) return usage_error("completion takes one shell: bash, zsh or fish");
  return words.operands.front();
}

}  // namespace klock
