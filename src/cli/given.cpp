// SPDX-License-Identifier: MIT
#include "cli/given.hpp"

#include "config/duration.hpp"
#include "config/parse_values.hpp"

#include <algorithm>
#include <utility>

namespace klock {

tl::unexpected<Error> usage_error(std::string what) {
  return failure(ErrorKind::usage, std::move(what));
}

const GivenOption* find_given(const ParsedWords& words, std::string_view name, char letter) {
  const auto found =
      std::find_if(words.options.rbegin(), words.options.rend(), [=](const GivenOption& given) {
        return letter != 0 ? given.option->letter == letter : given.option->name == name;
      });
  return found == words.options.rend() ? nullptr : &*found;
}

bool is_given(const ParsedWords& words, std::string_view name) {
  return find_given(words, name) != nullptr;
}

std::optional<std::string> value_of(const ParsedWords& words, std::string_view name, char letter) {
  const GivenOption* const given = find_given(words, name, letter);
  return given ? std::optional<std::string>(given->value) : std::nullopt;
}

Result<std::optional<Duration>> duration_of(const ParsedWords& words, std::string_view name) {
  const auto text = value_of(words, name);
  if (!text) return std::nullopt;
  const auto duration = parse_duration(*text);
  if (duration) return duration;
  return usage_error("--" + std::string(name) + ": '" + *text +
                     "' is not a duration (500ms, 15s, 2m, 1.5h, 1d; at most 365d)");
}

RawValues flags_of(const ParsedWords& words) {
  RawValues flags;
  for (const GivenOption& given : words.options) {
    const std::string name(given.option->name);
    const bool is_switch = given.option->value.empty();
    if (given.option->setting) flags[name] = {is_switch ? "1" : given.value, Origin::flag, given.written()};
    if (name != "quiet" && name != "verbose") continue;
    flags.erase(name == "quiet" ? "verbose" : "quiet");
    flags[name] = {"1", Origin::flag, given.written()};
  }
  return flags;
}

Result<std::optional<std::string>> key_of(const ParsedWords& words) {
  std::optional<std::string> key = value_of(words, "key");
  if (key && key->empty()) return usage_error("--key is empty");
  return key;
}

Status add_nonblock(const ParsedWords& words, RawValues& flags) {
  const GivenOption* const nonblock = find_given(words, "nonblock");
  if (!nonblock) return {};
  Setting<std::string>& wait = flags["wait"];
  if (wait.origin == Origin::flag) {
    const std::optional<Duration> limit = parse_duration(wait.value);
    if (limit && *limit != Duration::zero())
      return usage_error(nonblock->written() + " and " + wait.where + " " + wait.value +
                         " contradict each other");
    return {};
  }
  wait = {"0", Origin::flag, nonblock->written()};
  return {};
}

Result<ModeChoice> mode_of(const ParsedWords& words) {
  ModeChoice choice;
  const GivenOption* chosen = nullptr;
  for (const auto& [name, mode] : {std::pair("exclusive", Mode::exclusive), std::pair("shared", Mode::shared),
                                   std::pair("slots", Mode::slots)}) {
    const GivenOption* const given = find_given(words, name);
    if (!given) continue;
    if (chosen) return usage_error(chosen->written() + " and " + given->written() + " contradict each other");
    chosen = given;
    choice.mode = mode;
  }
  if (choice.mode != Mode::slots) return choice;
  const auto count = parse_count(chosen->value);
  if (!count || *count == 0 || *count > k_most_slots)
    return usage_error("--slots: '" + chosen->value + "' is not a number from 1 to " +
                       std::to_string(k_most_slots));
  choice.slots = *count;
  return choice;
}

}  // namespace klock
