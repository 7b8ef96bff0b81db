// SPDX-License-Identifier: MIT
#pragma once

#include "cli/requests.hpp"
#include "config/settings.hpp"
#include "util/clock.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace klock {

// What requests are made of: the options that were given, looked at by name.

tl::unexpected<Error> usage_error(std::string what);

// By its long name, or by its letter if that is given; the last one wins. nullptr: not given.
const GivenOption* find_given(const ParsedWords& words, std::string_view name, char letter = 0);
bool is_given(const ParsedWords& words, std::string_view name);
std::optional<std::string> value_of(const ParsedWords& words, std::string_view name, char letter = 0);

// nullopt: not given. Errors: usage, for what is no duration.
Result<std::optional<Duration>> duration_of(const ParsedWords& words, std::string_view name);

// For load_settings().
RawValues flags_of(const ParsedWords& words);

// -n is a wait of 0; a wait of more contradicts it. Errors: usage.
Status add_nonblock(const ParsedWords& words, RawValues& flags);

// --key. Errors: usage.
Result<std::optional<std::string>> key_of(const ParsedWords& words);

// -x, -s and --slots, which exclude each other. Errors: usage.
struct ModeChoice {
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;  // of Mode::slots
};
Result<ModeChoice> mode_of(const ParsedWords& words);

}  // namespace klock
