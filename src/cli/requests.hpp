// SPDX-License-Identifier: MIT
#pragma once

#include "cli/app.hpp"
#include "cli/words.hpp"
#include "commands/commands.hpp"

#include <span>
#include <string>
#include <string_view>

namespace klock {

// A command line with its options understood.
struct ParsedWords : SplitWords {
  std::vector<GivenOption> options;  // in the order given
};

// split_words() and parse_options(). Errors: usage.
Result<ParsedWords> parse_words(const Syntax& syntax, std::span<const std::string> words);

// What the words of each subcommand ask for. Errors: usage.
Result<RunRequest> run_request(const ParsedWords& words);
Result<OnceRequest> once_request(const ParsedWords& words);
Result<StatusRequest> status_request(const ParsedWords& words);
Result<ListRequest> list_request(const ParsedWords& words);
Result<WatchRequest> watch_request(const ParsedWords& words);
Result<ForceReleaseRequest> force_release_request(const ParsedWords& words);
Result<AcquireRequest> acquire_request(const ParsedWords& words);
// Of renew, check or release.
Result<HoldingRequest> holding_request(const ParsedWords& words, std::string_view command);
Result<WaitRequest> wait_request(const ParsedWords& words);
Result<LogRequest> log_request(const ParsedWords& words);
Result<StatsRequest> stats_request(const ParsedWords& words);
Result<DoctorRequest> doctor_request(const ParsedWords& words);
Result<std::string> completion_request(const ParsedWords& words);  // the shell

// For a command line of `acquire` that is not understood: the shell that will evaluate the answer.
Shell guess_shell(std::span<const std::string> words);

}  // namespace klock
