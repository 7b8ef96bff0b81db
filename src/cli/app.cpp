// SPDX-License-Identifier: MIT
#include "cli/app.hpp"

#include "cli/cli11.hpp"

#include <algorithm>
#include <map>

namespace klock {
namespace {

// CLI11's layout, with the usage line first and ours.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const Syntax& syntax) : syntax_(syntax) { column_width(30); }

  std::string make_description(const CLI::App*) const override { return {}; }

  std::string make_usage(const CLI::App*, std::string) const override {
    std::string usage = "Usage: klock ";
    if (!syntax_.command.empty()) usage.append(syntax_.command) += ' ';
    usage.append(syntax_.usage) += '\n';
    return syntax_.command.empty() ? usage.append(syntax_.summary) + '\n' : usage;
  }

  std::string make_option_name(const CLI::Option* option, bool) const override {
    const auto& letters = option->get_snames();
    const auto& names = option->get_lnames();
    std::string text = letters.empty() ? "    " : "-" + letters[0];
    if (!letters.empty() && !names.empty()) text += ", ";
    return names.empty() ? text : text + "--" + names[0];
  }

 private:
  const Syntax& syntax_;
};

// One of our options in CLI11's hands.
CLI::Option* add(CLI::App& app, const OptionGroup& group, const Option& option) {
  std::string names = option.letter != 0 ? std::string{'-', option.letter} : std::string();
  if (!option.name.empty()) names.append(names.empty() ? "--" : ",--").append(option.name);
  CLI::Option* const added =
      option.value.empty()
          ? app.add_flag(names)
          : app.add_option(names, CLI::callback_t([](const CLI::results_t&) { return true; }));
  added->description(std::string(option.help))->group(std::string(group.title));
  if (!option.value.empty())
    added->type_name(std::string(option.value))
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return added;
}

bool is_among(const std::vector<std::string>& own, const Option& option) {
  return std::any_of(own.begin(), own.end(), [&](const std::string& word) {
    if (word.starts_with("--"))
      return !option.name.empty() && std::string_view(word).substr(2).starts_with(option.name);
    return option.letter != 0 && word.find(option.letter) != std::string::npos;
  });
}

}  // namespace

std::string GivenOption::written() const {
  return option->name.empty() ? std::string{'-', option->letter} : "--" + std::string(option->name);
}

Result<std::vector<GivenOption>> parse_options(const Syntax& syntax, const std::vector<std::string>& own) {
  if (own.empty()) return {};
  CLI::App app;
  app.set_help_flag();
  std::map<const CLI::Option*, const Option*> ours;
  // Only what may have been given is set up: a start should not pay for options that nobody uses.
  for (const OptionGroup& group : syntax.groups)
    for (const Option& option : group.options)
      if (is_among(own, option)) ours[add(app, group, option)] = &option;
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));
  } catch (const CLI::ParseError& error) {
    return failure(ErrorKind::usage, error.what());
  }
  std::vector<GivenOption> given;
  std::map<const CLI::Option*, std::size_t> seen;
  for (const CLI::Option* option : app.parse_order()) {
    const bool has_value = !ours[option]->value.empty();
    given.push_back({ours[option], has_value ? option->results().at(seen[option]++) : std::string()});
  }
  return given;
}

std::string help_text(const Syntax& syntax) {
  CLI::App app;
  app.set_help_flag();
  app.formatter(std::make_shared<HelpFormatter>(syntax));
  for (const OptionGroup& group : syntax.groups)
    for (const Option& option : group.options) add(app, group, option);
  if (syntax.command.empty())
    for (const Syntax& command : subcommands())
      app.add_subcommand(std::string(command.command), std::string(command.summary))->group("Commands");
  app.footer(std::string(syntax.notes));
  return app.help();
}

}  // namespace klock
