// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>

namespace klock {

// The one table of the command line: what is parsed, what --help shows, and what is a setting.
struct Option {
  std::string_view name;   // long name without dashes; empty: only a letter
  char letter;             // 0: only a long name
  std::string_view value;  // what --help calls its value; empty: a switch
  std::string_view help;   // one line
  bool setting = false;    // goes to load_settings() under its name
};

struct OptionGroup {
  std::string_view title;
  std::span<const Option> options;
};

// Where the words of a subcommand that are no options go.
enum class Words {
  subcommand,       // klock itself: its options end at the first word
  operands,         // options and words in any order
  name_and_command  // `run`: the first word is NAME, then comes a command whose words are not ours
};

struct Syntax {
  std::string_view command;  // empty: klock itself
  std::string_view usage;    // behind "klock COMMAND"
  std::string_view summary;
  std::span<const OptionGroup> groups;
  Words words = Words::operands;
  std::string_view notes = {};  // the end of --help
};

// nullptr: `command` is no subcommand. Empty: klock itself.
const Syntax* find_syntax(std::string_view command);
std::span<const Syntax> subcommands();

// nullptr: not an option of `syntax`.
const Option* find_option(const Syntax& syntax, std::string_view name);
const Option* find_option(const Syntax& syntax, char letter);

}  // namespace klock
