// SPDX-License-Identifier: MIT
#include "config/parse_values.hpp"

#include <algorithm>
#include <charconv>

namespace klock {
namespace {

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end ? std::optional<T>(value) : std::nullopt;
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Without spaces and control characters.
bool is_visible(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != '\x7f'; });
}

}  // namespace

std::optional<int> parse_exit_status(const std::string& text) {
  const auto value = parse_number<int>(text);
  return value && *value >= 0 && *value <= 255 && text.front() != '-' ? value : std::nullopt;
}

std::optional<std::size_t> parse_count(const std::string& text) {
  return parse_number<std::size_t>(text);
}

std::optional<bool> parse_switch(const std::string& text) {
  if (text == "1" || text == "0") return text == "1";
  return std::nullopt;
}

std::optional<int> parse_verbosity(const std::string& text) {
  const auto value = parse_number<int>(text);
  return value && *value >= -1 && *value <= 1 ? value : std::nullopt;
}

std::optional<OnLost> parse_on_lost(const std::string& text) {
  if (text == "stop") return OnLost::stop;
  if (text == "warn") return OnLost::warn;
  return std::nullopt;
}

std::optional<RecordCommand> parse_record_command(const std::string& text) {
  if (text == "name") return RecordCommand::name;
  if (text == "full") return RecordCommand::full;
  return std::nullopt;
}

std::optional<OnGone> parse_on_gone(const std::string& text) {
  if (text == "lost") return OnGone::lost;
  if (text == "reclaim") return OnGone::reclaim;
  return std::nullopt;
}

std::optional<IfUnavailable> parse_if_unavailable(const std::string& text) {
  for (const auto choice :
       {IfUnavailable::fail, IfUnavailable::wait, IfUnavailable::local, IfUnavailable::run})
    if (text == if_unavailable_text(choice)) return choice;
  return std::nullopt;
}

std::string if_unavailable_text(IfUnavailable choice) {
  switch (choice) {
    case IfUnavailable::fail:
      return "fail";
    case IfUnavailable::wait:
      return "wait";
    case IfUnavailable::local:
      return "local";
    case IfUnavailable::run:
      break;
  }
  return "run";
}

std::optional<std::string> parse_group(const std::string& text) {
  return is_visible(text) && !text.empty() && text.size() <= 200 ? std::optional<std::string>(text)
                                                                 : std::nullopt;
}

std::optional<std::string> parse_prefix(const std::string& text) {
  return is_visible(text) && text.size() <= 100 ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<std::string> parse_server_name(const std::string& text) {
  constexpr std::size_t k_longest_name = 255;
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view(".-_:").find(c) != std::string_view::npos;
  });
  return clean && !text.empty() && text.size() <= k_longest_name ? std::optional<std::string>(text)
                                                                 : std::nullopt;
}

std::optional<std::string> parse_signal_text(const std::string& text) {
  const bool clean = std::all_of(text.begin(), text.end(),
                                 [](char c) { return is_letter_or_digit(c) || c == '+' || c == '-'; });
  const bool start = !text.empty() && is_letter_or_digit(text.front());
  return clean && start && text.size() <= 16 ? std::optional<std::string>(text) : std::nullopt;
}

}  // namespace klock
