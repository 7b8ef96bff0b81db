// SPDX-License-Identifier: MIT
#include "cli/requests.hpp"
#include "config/nearest.hpp"

#include <gtest/gtest.h>

#include <random>

namespace klock {
namespace {

using Words_ = std::vector<std::string>;

Result<ParsedWords> split(const char* command, const Words_& words) {
  return parse_words(*find_syntax(command), words);
}

Result<RunRequest> run_of(const Words_& words) {
  const auto split_up = split("run", words);
  if (!split_up) return tl::unexpected<Error>(split_up.error());
  return run_request(*split_up);
}

RunRequest good_run(const Words_& words) {
  const auto request = run_of(words);
  EXPECT_TRUE(request.has_value()) << ::testing::PrintToString(words)
                                   << (request ? "" : request.error().what);
  return request ? *request : RunRequest{};
}

std::string run_error(const Words_& words) {
  const auto request = run_of(words);
  EXPECT_FALSE(request.has_value()) << ::testing::PrintToString(words);
  if (request) return {};
  EXPECT_EQ(request.error().kind, ErrorKind::usage);
  return request.error().what;
}

std::string flag_of(const RawValues& flags, const std::string& name) {
  const auto found = flags.find(name);
  return found == flags.end() ? "(none)" : found->second.value;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(RunWords, NameThenCommand) {
  for (const Words_& words :
       {Words_{"n", "ls", "-la"}, Words_{"n", "--", "ls", "-la"}, Words_{"-x", "n", "ls", "-la"},
        Words_{"--", "n", "ls", "-la"}, Words_{"--", "n", "--", "ls", "-la"}}) {
    const RunRequest request = good_run(words);
    EXPECT_EQ(request.name, "n");
    EXPECT_EQ(request.command, (Words_{"ls", "-la"}));
  }
}

TEST(RunWords, OurOptionsAfterNameAreOurs) {
  const RunRequest request = good_run({"n", "--ttl", "7", "-w5", "cmd", "--ttl", "9", "-n"});
  EXPECT_EQ(flag_of(request.flags, "ttl"), "7");
  EXPECT_EQ(flag_of(request.flags, "wait"), "5");
  EXPECT_EQ(request.command, (Words_{"cmd", "--ttl", "9", "-n"}));
}

// The reports: consul#1063, tini's README (a child's own options eaten by the wrapper).
TEST(RunWords, TheCommandIsPassedOnByteForByte) {
  const Words_ command{"sh", "-c",  "echo $0 $1", "a",  "-v",       "--help",  "-E", "",
                       "--", "a b", "'\"\\",      "\n", "\xff\xfe", "--ttl=x", "-",  "--version"};
  Words_ words{"n"};
  words.insert(words.end(), command.begin(), command.end());
  EXPECT_EQ(good_run(words).command, command);
  words.insert(words.begin() + 1, "--");
  EXPECT_EQ(good_run(words).command, command);
}

TEST(RunWords, OnlyTheFirstDoubleDashIsOurs) {
  EXPECT_EQ(good_run({"n", "--", "--", "x"}).command, (Words_{"--", "x"}));
  EXPECT_EQ(good_run({"n", "--", "-n"}).command, (Words_{"-n"}));
  EXPECT_EQ(good_run({"n", "x", "--", "y"}).command, (Words_{"x", "--", "y"}));
}

TEST(RunWords, DoubleDashBeforeNameEndsTheOptions) {
  EXPECT_EQ(good_run({"--", "-n", "-v"}).name, "-n");
  EXPECT_EQ(good_run({"--", "-n", "-v"}).command, (Words_{"-v"}));
  EXPECT_EQ(good_run({"-q", "--", "n", "--", "--", "x"}).command, (Words_{"--", "x"}));
  EXPECT_TRUE(mentions(run_error({"--"}), "NAME"));
  EXPECT_TRUE(mentions(run_error({"--", "n"}), "no command"));
}

TEST(RunWords, ALoneDashIsAWord) {
  EXPECT_EQ(good_run({"-", "-"}).name, "-");
  EXPECT_EQ(good_run({"n", "-", "-n"}).command, (Words_{"-", "-n"}));
}

TEST(RunWords, AMistypedOptionDoesNotBecomeTheCommand) {
  EXPECT_TRUE(mentions(run_error({"n", "-la"}), "'--'"));
  EXPECT_TRUE(mentions(run_error({"n", "--tt", "5", "x"}), "'--tt', did you mean '--ttl'?"));
  EXPECT_TRUE(mentions(run_error({"n", "--bogus", "x"}), "put '--' before it"));
  EXPECT_FALSE(mentions(run_error({"--bogus", "n", "x"}), "put '--' before it"));
  EXPECT_TRUE(mentions(run_error({"n", "-5"}), "'-5'"));
  EXPECT_TRUE(mentions(run_error({"-nZ", "n", "x"}), "'-Z' in '-nZ'"));
}

TEST(RunWords, OneModeOnly) {
  EXPECT_EQ(good_run({"n", "x"}).mode, Mode::exclusive);
  EXPECT_EQ(good_run({"-xx", "n", "x"}).mode, Mode::exclusive);
  EXPECT_EQ(good_run({"-s", "--shared", "n", "x"}).mode, Mode::shared);
  const RunRequest slots = good_run({"--slots", "10000", "n", "x"});
  EXPECT_EQ(slots.mode, Mode::slots);
  EXPECT_EQ(slots.slots, 10'000u);
  EXPECT_TRUE(mentions(run_error({"-s", "-x", "n", "x"}), "--exclusive and --shared contradict"));
  EXPECT_TRUE(mentions(run_error({"-s", "--slots", "2", "n", "x"}), "--shared and --slots contradict"));
  for (const char* number : {"0", "10001", "-1", "", "two", "1.5", "99999999999999999999"})
    EXPECT_TRUE(mentions(run_error({"--slots", number, "n", "x"}), "--slots")) << number;
}

TEST(RunWords, OnceOnlyWorkAndSeveralLocks) {
  const RunRequest request = good_run({"--once", "today", "--once-ttl", "1d", "--unless", "test -e x",
                                       "--also", "b", "n", "--also", "c", "x"});
  EXPECT_EQ(request.once, "today");
  EXPECT_EQ(flag_of(request.flags, "once-ttl"), "1d");
  EXPECT_EQ(request.unless, "test -e x");
  EXPECT_EQ(request.also, (Words_{"b", "c"}));
  EXPECT_TRUE(mentions(run_error({"--once", "", "n", "x"}), "empty"));
  EXPECT_TRUE(mentions(run_error({"--once", "a b", "n", "x"}), "space"));
  EXPECT_TRUE(mentions(run_error({"--once-ttl", "1d", "n", "x"}), "--once-ttl goes with --once"));
  EXPECT_TRUE(mentions(run_error({"--unless", "", "n", "x"}), "--unless"));
}

TEST(OnceWords, WhatNameAndKey) {
  const auto once_of = [](const Words_& words) { return once_request(*split("once", words)); };
  const auto request = once_of({"show", "--json", "n", "k"});
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(request->what == OnceRequest::What::show && request->json);
  EXPECT_EQ(request->name + request->once, "nk");
  EXPECT_TRUE(once_of({"clear", "n", "k"})->what == OnceRequest::What::clear);
  for (const Words_& words : {Words_{}, Words_{"show"}, Words_{"show", "n"}, Words_{"drop", "n", "k"},
                              Words_{"show", "n", "k", "l"}, Words_{"show", "n", ""}})
    EXPECT_FALSE(once_of(words).has_value()) << ::testing::PrintToString(words);
}

TEST(RunWords, FormsOfOptions) {
  for (const Words_& words :
       {Words_{"--wait=5", "n", "x"}, Words_{"--wait", "5", "n", "x"}, Words_{"-w5", "n", "x"},
        Words_{"-w", "5", "n", "x"}, Words_{"-qw5", "n", "x"}, Words_{"-qw", "5", "n", "x"}})
    EXPECT_EQ(flag_of(good_run(words).flags, "wait"), "5") << ::testing::PrintToString(words);
  const RunRequest cluster = good_run({"-nq", "n", "x"});
  EXPECT_EQ(flag_of(cluster.flags, "wait"), "0");
  EXPECT_EQ(flag_of(cluster.flags, "quiet"), "1");
  EXPECT_TRUE(mentions(run_error({"--nonblock=1", "n", "x"}), "takes no value"));
  EXPECT_TRUE(mentions(run_error({"n", "--ttl"}), "--ttl"));
  EXPECT_TRUE(mentions(run_error({"n", "-w"}), "--wait"));
  EXPECT_TRUE(mentions(run_error({"--=x", "n"}), "unknown option"));
}

TEST(RunWords, ValuesMayLookLikeAnything) {
  EXPECT_EQ(flag_of(good_run({"-m", "-n", "n", "x"}).flags, "message"), "-n");
  EXPECT_EQ(flag_of(good_run({"-m", "--", "n", "x"}).flags, "message"), "--");
  EXPECT_EQ(flag_of(good_run({"-m", "", "n", "x"}).flags, "message"), "");
  EXPECT_EQ(flag_of(good_run({"--message=", "n", "x"}).flags, "message"), "");
  EXPECT_EQ(flag_of(good_run({"--message=a=b", "n", "x"}).flags, "message"), "a=b");
  EXPECT_EQ(flag_of(good_run({"-m\xff\n", "n", "x"}).flags, "message"), "\xff\n");
}

TEST(RunWords, TheLastOneWins) {
  EXPECT_EQ(flag_of(good_run({"--ttl", "1", "n", "--ttl=2", "x"}).flags, "ttl"), "2");
  const RunRequest request = good_run({"-q", "-v", "n", "x"});
  EXPECT_EQ(flag_of(request.flags, "quiet"), "(none)");
  EXPECT_EQ(flag_of(request.flags, "verbose"), "1");
}

TEST(RunWords, TellsWhichOptionAValueCameFrom) {
  EXPECT_EQ(good_run({"-w5", "n", "x"}).flags.at("wait").where, "--wait");
  EXPECT_EQ(good_run({"--wait=5", "n", "x"}).flags.at("wait").where, "--wait");
  EXPECT_EQ(good_run({"-n", "n", "x"}).flags.at("wait").where, "--nonblock");
}

TEST(RunWords, NonblockAndWait) {
  EXPECT_TRUE(mentions(run_error({"-n", "-w5", "n", "x"}), "contradict"));
  EXPECT_TRUE(mentions(run_error({"-w5", "--nonblock", "n", "x"}), "contradict"));
  EXPECT_EQ(flag_of(good_run({"-n", "-w0", "n", "x"}).flags, "wait"), "0");
  EXPECT_EQ(flag_of(good_run({"-n", "-wx", "n", "x"}).flags, "wait"), "x")
      << "load_settings() tells what is wrong";
}

TEST(RunWords, ShellCommand) {
  const RunRequest request = good_run({"n", "-c", "echo a; echo b", "-q"});
  EXPECT_EQ(request.shell_command, "echo a; echo b");
  EXPECT_TRUE(request.command.empty());
  EXPECT_EQ(good_run({"-c", "-x", "n"}).shell_command, "-x");
  EXPECT_EQ(good_run({"n", "-c", "", "--"}).shell_command, "");
}

// The reports: borgmatic#334, AlmaLinux/mirrors#80 (`-c` with several words).
TEST(RunWords, ShellCommandWithFurtherWordsShowsTheQuoting) {
  EXPECT_TRUE(mentions(run_error({"n", "-c", "echo", "hi", "it's"}), "klock run n -c 'echo hi it'\\''s'"));
  EXPECT_TRUE(mentions(run_error({"n", "-c", "echo", "--", "x"}), "-c 'echo x'"));
}

TEST(RunWords, SomethingIsMissing) {
  EXPECT_TRUE(mentions(run_error({}), "NAME"));
  EXPECT_TRUE(mentions(run_error({"-n"}), "NAME"));
  EXPECT_TRUE(mentions(run_error({"n"}), "no command"));
  EXPECT_TRUE(mentions(run_error({"n", "--"}), "no command"));
  EXPECT_TRUE(mentions(run_error({"--key", "", "n", "x"}), "--key"));
}

TEST(RunWords, AnEmptyNameIsStillTheName) {
  const RunRequest request = good_run({"", "x", "y"});
  EXPECT_EQ(request.name, "");
  EXPECT_EQ(request.command, (Words_{"x", "y"}));
}

TEST(SplitWords, HelpAndVersionEndTheSplitting) {
  for (const Words_& words : {Words_{"n", "--help", "--bogus"}, Words_{"-h"}, Words_{"n", "-qh-"}}) {
    const auto found = split("run", words);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->options.back().option->name, "help");
  }
  EXPECT_EQ(split("", {"--version", "run"})->options.back().option->name, "version");
  EXPECT_TRUE(split("run", {"n", "cmd", "--help"})->options.empty());
}

TEST(SplitWords, GlobalOptionsBeforeTheSubcommand) {
  const auto found = split("", {"-q", "--url", "local:", "run", "--ttl", "5"});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->used, 3U);
  EXPECT_EQ(found->options.size(), 2U);
  EXPECT_EQ(split("", {"--", "run"})->used, 1U);
  EXPECT_FALSE(split("", {"--ttl", "5", "run"}).has_value());
}

TEST(SplitWords, Operands) {
  const auto found = split("status", {"a", "--json", "b", "--", "-c"});
  ASSERT_TRUE(found.has_value());
  const auto request = status_request(*found);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->names, (Words_{"a", "b", "-c"}));
  EXPECT_TRUE(request->json);
}

TEST(Requests, KeyGoesWithOneLock) {
  EXPECT_FALSE(status_request(*split("status", {"--key", "k"})).has_value());
  EXPECT_FALSE(status_request(*split("status", {"--key", "k", "a", "b"})).has_value());
  EXPECT_EQ(status_request(*split("status", {"--key", "k", "a"}))->key, "k");
  EXPECT_FALSE(list_request(*split("list", {"--key", "k"})).has_value());
}

TEST(Requests, List) {
  EXPECT_EQ(list_request(*split("list", {}))->pattern, "");
  EXPECT_EQ(list_request(*split("list", {"a*", "--names"}))->pattern, "a*");
  EXPECT_TRUE(list_request(*split("list", {"a*", "--names"}))->names_only);
  EXPECT_FALSE(list_request(*split("list", {"a", "b"})).has_value());
  EXPECT_EQ(list_request(*split("list", {"a"}))->older_than, std::nullopt);
  EXPECT_EQ(list_request(*split("list", {"a", "--older-than", "1.5h"}))->older_than,
            std::chrono::minutes(90));
  for (const char* wrong : {"", "-1", "old", "400d"})
    EXPECT_FALSE(list_request(*split("list", {"--older-than", wrong})).has_value()) << wrong;
}

TEST(Requests, ForceRelease) {
  const auto request = force_release_request(
      *split("force-release", {"n", "--id", "abc", "--reason", "stuck", "-y", "--now", "-w", "5s"}));
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->name, "n");
  EXPECT_EQ(request->id, "abc");
  EXPECT_EQ(request->reason, "stuck");
  EXPECT_TRUE(request->yes && request->now);
  EXPECT_FALSE(request->stale);
  EXPECT_EQ(flag_of(request->flags, "wait"), "5s");
  EXPECT_FALSE(force_release_request(*split("force-release", {})).has_value());
  EXPECT_FALSE(force_release_request(*split("force-release", {"a", "b"})).has_value());
  EXPECT_FALSE(force_release_request(*split("force-release", {"a", "--id="})).has_value());
}

TEST(SplitWords, SurvivesAnything) {
  std::mt19937 random(4);
  const Words_ pieces{"-",  "--",  "n",  "-n",     "-w", "--wait", "=",    "5",
                      "-c", "--c", "-E", "--ttl=", "",   "x",      "-nqw", "\xff"};
  for (int i = 0; i < 50'000; ++i) {
    Words_ words(random() % 6);
    for (std::string& word : words)
      for (std::size_t n = 1 + random() % 2; n > 0; --n) word += pieces[random() % pieces.size()];
    const auto request = run_of(words);
    if (!request) continue;
    EXPECT_NE(request->command.empty(), !request->shell_command.has_value());
    ASSERT_LE(request->command.size(), words.size());
    EXPECT_TRUE(std::equal(request->command.rbegin(), request->command.rend(), words.rbegin()));
  }
}

TEST(Syntaxes, KnowTheirSubcommandsAndNoOthers) {
  for (const char* name : {"run", "acquire", "renew", "check", "release", "wait", "status", "list", "watch",
                           "force-release", "log", "stats", "once", "doctor", "completion"})
    EXPECT_NE(find_syntax(name), nullptr) << name;
}

TEST(Help, FitsATerminalAndNamesEveryOption) {
  for (const Syntax& syntax : subcommands()) {
    const std::string text = help_text(syntax);
    EXPECT_TRUE(mentions(text, "Usage: klock " + std::string(syntax.command))) << text;
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = text.find('\n', start);
      EXPECT_LE(end - start, 80U) << text.substr(start, end - start);
      start = end + 1;
    }
    for (const OptionGroup& group : syntax.groups) {
      for (const Option& option : group.options) {
        const std::string written =
            option.name.empty() ? "  -c STRING " : "--" + std::string(option.name) + " ";
        EXPECT_TRUE(mentions(text, written)) << written;
      }
    }
  }
}

TEST(NearestWord, FindsMisspellings) {
  const std::vector<std::string_view> words{"run", "status", "list", "force-release"};
  EXPECT_EQ(nearest_word("statsu", words), "status");
  EXPECT_EQ(nearest_word("forcerelease", words), "force-release");
  EXPECT_EQ(nearest_word("rnu", words), "");
  EXPECT_EQ(nearest_word("rum", words), "run");
  EXPECT_EQ(nearest_word("acquire", words), "");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word(std::string(100'000, 'x'), words), "");
}

}  // namespace
}  // namespace klock
