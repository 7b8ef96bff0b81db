// SPDX-License-Identifier: MIT
// The subcommands for shell scripts.
#include "cli/given.hpp"
#include "config/duration.hpp"
#include "config/parse_values.hpp"

#include <algorithm>
#include <limits>

namespace klock {
namespace {

constexpr Duration k_shortest_lease = std::chrono::milliseconds(200);  // as of --ttl

Result<std::optional<pid_t>> pid_of(const ParsedWords& words) {
  const auto text = value_of(words, "pid");
  if (!text) return std::nullopt;
  const auto number = parse_count(*text);
  if (number && *number > 0 && *number <= static_cast<std::size_t>(std::numeric_limits<pid_t>::max()))
    return static_cast<pid_t>(*number);
  return usage_error("--pid: '" + *text + "' is not the number of a process");
}

Status add_keeper(const ParsedWords& words, AcquireRequest& request) {
  request.keeper = !is_given(words, "no-keeper");
  KLOCK_TRY(pid, pid_of(words));
  KLOCK_TRY(maintenance, duration_of(words, "for"));
  request.pid = pid;
  request.maintenance = maintenance;
  if (maintenance && *maintenance < k_shortest_lease)
    return usage_error("--for: a hold must last at least " + format_duration(k_shortest_lease));
  if (maintenance)
    for (const char* other : {"pid", "ttl", "on-lost", "signal"})
      if (is_given(words, other))
        return usage_error("--for makes a hold without a process that nobody renews: --" +
                           std::string(other) + " does not go with it");
  return {};
}

Result<Shell> shell_of(const ParsedWords& words) {
  const auto shell = value_of(words, "shell");
  if (!shell || *shell == "sh") return Shell::posix;
  if (*shell == "fish") return Shell::fish;
  return usage_error("--shell: '" + *shell + "' is neither sh (also bash, dash, zsh, ksh) nor fish");
}

// The part that all of them have.
template <class Request>
Result<Request> request_for(const ParsedWords& words, std::string_view command) {
  if (words.operands.size() != 1) return usage_error(std::string(command) + " takes exactly one NAME");
  Request request;
  request.flags = flags_of(words);
  request.name = words.operands.front();
  KLOCK_TRY(key, key_of(words));
  request.key = std::move(key);
  return request;
}

}  // namespace

Result<AcquireRequest> acquire_request(const ParsedWords& words) {
  KLOCK_TRY(request, request_for<AcquireRequest>(words, "acquire"));
  KLOCK_CHECK(add_nonblock(words, request.flags));
  KLOCK_TRY(choice, mode_of(words));
  KLOCK_CHECK(add_keeper(words, request));
  KLOCK_TRY(shell, shell_of(words));
  request.mode = choice.mode;
  request.slots = choice.slots;
  request.shell = shell;
  return request;
}

Result<HoldingRequest> holding_request(const ParsedWords& words, std::string_view command) {
  KLOCK_TRY(request, request_for<HoldingRequest>(words, command));
  KLOCK_TRY(left, duration_of(words, "left"));
  request.left = left.value_or(Duration::zero());
  request.token = value_of(words, "token");
  request.token_file = value_of(words, "token-file");
  if (request.token && request.token_file) return usage_error("--token and --token-file exclude each other");
  return request;
}

Result<WaitRequest> wait_request(const ParsedWords& words) {
  return request_for<WaitRequest>(words, "wait");
}

Shell guess_shell(std::span<const std::string> words) {
  const auto at = std::find(words.begin(), words.end(), "--shell");
  const bool apart = at != words.end() && at + 1 != words.end() && *(at + 1) == "fish";
  const bool attached = std::find(words.begin(), words.end(), "--shell=fish") != words.end();
  return apart || attached ? Shell::fish : Shell::posix;
}

}  // namespace klock
