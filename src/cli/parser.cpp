// SPDX-License-Identifier: MIT
#include "cli/parser.hpp"

#include "cli/app.hpp"
#include "cli/completions.hpp"
#include "cli/requests.hpp"
#include "cli/version.hpp"
#include "config/nearest.hpp"
#include "output/message.hpp"
#include "output/shell_quote.hpp"
#include "output/stdout.hpp"
#include "util/exit_status.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace klock {
namespace {

// A program that is started with descriptor 0, 1 or 2 closed would get it for its next file, and a message
// would be written into a lock file or a server's connection. The stand-ins close again in the command; using
// one is an error, as it is with a closed descriptor.
void reserve_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

using CommandLine = std::span<const std::string>;

std::string_view nearest_subcommand(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Syntax& syntax : subcommands()) names.push_back(syntax.command);
  return nearest_word(word, names);
}

// Also where a mistake hides it: `eval "$(klock aquire ...)"` of nothing would succeed.
bool means_acquire(const Syntax& syntax, CommandLine line) {
  if (!syntax.command.empty()) return syntax.command == "acquire";
  return std::any_of(line.begin(), line.end(),
                     [](const std::string& word) { return nearest_subcommand(word) == "acquire"; });
}

int usage_failure(const Error& error, const Syntax& syntax, CommandLine line) {
  const std::string command = syntax.command.empty() ? "" : " " + std::string(syntax.command);
  const std::string hint = "try 'klock" + command + " --help'";
  Messenger(0).usage(error.what + (error.hint.empty() ? "" : "; " + error.hint) + "; " + hint);
  const int status = exit_status(error.kind);
  // The message is on its way: should nobody read this, there is nobody else to tell.
  if (means_acquire(syntax, line)) static_cast<void>(write_stdout(shell_failure(status, guess_shell(line))));
  return status;
}

int print(const std::string& text) {
  const Status written = write_stdout(text);
  if (written) return k_exit_ok;
  Messenger(0).tell(written.error().what);
  return exit_status(written.error().kind);
}

// Whether the splitting ended at --help or --version.
bool asks_about_klock(const ParsedWords& words) {
  if (words.options.empty()) return false;
  const std::string_view last = words.options.back().option->name;
  return last == "help" || last == "version";
}

int tell_about_klock(const ParsedWords& words, const Syntax& syntax) {
  if (words.options.back().option->name == "version") return print("klock " + std::string(k_version) + "\n");
  return print(help_text(syntax));
}

int print_completion(const std::string& shell, const Syntax& syntax, CommandLine line) {
  if (shell == "bash") return print(std::string(k_bash_completion));
  if (shell == "zsh") return print(std::string(k_zsh_completion));
  if (shell == "fish") return print(std::string(k_fish_completion));
  return usage_failure({ErrorKind::usage, "no completion for '" + shell + "': bash, zsh or fish"}, syntax,
                       line);
}

template <class Request, class Execute>
int execute(const Result<Request>& request, const Syntax& syntax, CommandLine line, Execute&& command) {
  return request ? command(*request) : usage_failure(request.error(), syntax, line);
}

int dispatch(const Syntax& syntax, const ParsedWords& words, CommandLine line) {
  const auto is = [&](std::string_view command) { return syntax.command == command; };
  if (is("run")) return execute(run_request(words), syntax, line, run);
  if (is("acquire")) return execute(acquire_request(words), syntax, line, acquire);
  if (is("renew")) return execute(holding_request(words, syntax.command), syntax, line, renew);
  if (is("check")) return execute(holding_request(words, syntax.command), syntax, line, check);
  if (is("release")) return execute(holding_request(words, syntax.command), syntax, line, release);
  if (is("wait")) return execute(wait_request(words), syntax, line, wait_until_free);
  if (is("status")) return execute(status_request(words), syntax, line, status);
  if (is("list")) return execute(list_request(words), syntax, line, list);
  if (is("watch")) return execute(watch_request(words), syntax, line, watch);
  if (is("once")) return execute(once_request(words), syntax, line, once);
  if (is("log")) return execute(log_request(words), syntax, line, log);
  if (is("stats")) return execute(stats_request(words), syntax, line, stats);
  if (is("doctor")) return execute(doctor_request(words), syntax, line, doctor);
  if (is("force-release")) return execute(force_release_request(words), syntax, line, force_release);
  return execute(completion_request(words), syntax, line,
                 [&](const std::string& shell) { return print_completion(shell, syntax, line); });
}

Result<const Syntax*> choose(std::string_view command) {
  if (const Syntax* const syntax = command.empty() ? nullptr : find_syntax(command)) return syntax;
  const std::string_view close = nearest_subcommand(command);
  return failure(ErrorKind::usage,
                 "unknown command '" + std::string(command) + "'" +
                     (close.empty() ? std::string() : ", did you mean '" + std::string(close) + "'?"));
}

// `klock help [COMMAND]`
int help(CommandLine words) {
  const Syntax& main = *find_syntax({});
  if (words.empty()) return print(help_text(main));
  const auto syntax = choose(words.front());
  return syntax ? print(help_text(**syntax)) : usage_failure(syntax.error(), main, {});
}

int parse_and_run(const CommandLine line) {
  const Syntax& main = *find_syntax({});
  Result<ParsedWords> before = parse_words(main, line);
  if (!before) return usage_failure(before.error(), main, line);
  if (asks_about_klock(*before)) return tell_about_klock(*before, main);
  const CommandLine words = line.subspan(before->used);
  if (words.empty())
    return usage_failure({ErrorKind::usage, "the command is missing: run, status, list, ..."}, main, line);
  if (words.front() == "help") return help(words.subspan(1));
  const auto syntax = choose(words.front());
  if (!syntax) return usage_failure(syntax.error(), main, line);

  Result<ParsedWords> after = parse_words(**syntax, words.subspan(1));
  if (!after) return usage_failure(after.error(), **syntax, line);
  if (asks_about_klock(*after)) return tell_about_klock(*after, **syntax);
  // What stands behind the subcommand comes later, and so wins.
  after->options.insert(after->options.begin(), before->options.begin(), before->options.end());
  return dispatch(**syntax, *after, line);
}

}  // namespace

int run_cli(int argc, char** argv) {
  reserve_standard_descriptors();
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  return parse_and_run(words);
}

}  // namespace klock
