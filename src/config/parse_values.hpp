// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace klock {

// One value each, from its text; nullopt: not such a value.
std::optional<int> parse_exit_status(const std::string& text);
std::optional<std::size_t> parse_count(const std::string& text);  // digits alone
std::optional<bool> parse_switch(const std::string& text);        // "1" or "0"
std::optional<int> parse_verbosity(const std::string& text);
std::optional<OnLost> parse_on_lost(const std::string& text);
std::optional<OnGone> parse_on_gone(const std::string& text);
std::optional<IfUnavailable> parse_if_unavailable(const std::string& text);
std::string if_unavailable_text(IfUnavailable choice);
std::optional<RecordCommand> parse_record_command(const std::string& text);
std::optional<std::string> parse_group(const std::string& text);
std::optional<std::string> parse_prefix(const std::string& text);
std::optional<std::string> parse_server_name(const std::string& text);  // for a certificate
// Looks at the form alone; supervise/ knows which signals there are.
std::optional<std::string> parse_signal_text(const std::string& text);

// "--ttl: WHY", "KLOCK_TTL: WHY", "/etc/klock/klock.toml:3: ttl: WHY": usage for a flag, else config.
template <class T>
tl::unexpected<Error> wrong_value(const Setting<T>& given, const std::string& name, const std::string& why,
                                  std::string hint = {}) {
  const bool in_file = given.origin == Origin::system_file || given.origin == Origin::user_file;
  return failure(given.origin == Origin::flag ? ErrorKind::usage : ErrorKind::config,
                 given.where + ": " + (in_file ? name + ": " : std::string()) + why, std::move(hint));
}

}  // namespace klock
