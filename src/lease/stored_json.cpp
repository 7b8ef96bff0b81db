// SPDX-License-Identifier: MIT
#include "lease/stored_json.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace klock {
namespace {

constexpr std::size_t k_longest_text = 4096;

}  // namespace

std::string text_of(const nlohmann::json& json, const char* member) {
  const auto found = json.find(member);
  if (found == json.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>().substr(0, k_longest_text);
}

std::int64_t number_of(const nlohmann::json& json, const char* member) {
  const auto found = json.find(member);
  if (found == json.end() || !found->is_number_unsigned()) return 0;
  const auto value = found->get<std::uint64_t>();
  return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : 0;
}

bool flag_of(const nlohmann::json& json, const char* member) {
  const auto found = json.find(member);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

Mode mode_of(const nlohmann::json& json, const char* member) {
  const std::string text = text_of(json, member);
  for (const Mode mode : {Mode::shared, Mode::slots})
    if (text == mode_name(mode)) return mode;
  return Mode::exclusive;
}

Person person_of(const nlohmann::json& json) {
  const std::int64_t pid = number_of(json, "pid");
  return {text_of(json, "user"),
          text_of(json, "host"),
          std::in_range<pid_t>(pid) ? static_cast<pid_t>(pid) : 0,
          text_of(json, "program"),
          text_of(json, "message"),
          text_of(json, "origin"),
          text_of(json, "command")};
}

}  // namespace klock
