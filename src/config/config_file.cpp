// SPDX-License-Identifier: MIT
#include "config/config_file.hpp"

#include "config/nearest.hpp"

// Some of its assertions do not hold for what is no TOML ("[^"), which it refuses none the less.
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace klock {
namespace {

enum class Kind { text, number, on_off };  // number: a string will do too

struct Key {
  std::string_view name;
  Kind kind;
};

constexpr std::array<Key, 31> k_keys{{{"audit-file", Kind::text},      {"conflict-exit-code", Kind::number},
                                      {"group", Kind::text},           {"if-unavailable", Kind::text},
                                      {"kill-after", Kind::number},    {"max-hold", Kind::number},
                                      {"max-waiters", Kind::number},   {"message", Kind::text},
                                      {"min-hold", Kind::number},      {"nonblock", Kind::on_off},
                                      {"on-gone", Kind::text},         {"on-lost", Kind::text},
                                      {"once-ttl", Kind::number},      {"outcome-file", Kind::text},
                                      {"prefix", Kind::text},          {"quiet", Kind::on_off},
                                      {"record-command", Kind::text},  {"sentinel-user", Kind::text},
                                      {"signal", Kind::number},        {"skip-exit-code", Kind::number},
                                      {"store-timeout", Kind::number}, {"tls-ca", Kind::text},
                                      {"tls-cert", Kind::text},        {"tls-key", Kind::text},
                                      {"tls-server-name", Kind::text}, {"tree", Kind::on_off},
                                      {"ttl", Kind::number},           {"url", Kind::text},
                                      {"verbose", Kind::on_off},       {"wait", Kind::number},
                                      {"wait-replicas", Kind::number}}};

const Key* find_key(std::string_view name) {
  const auto* const key =
      std::find_if(k_keys.begin(), k_keys.end(), [&](const Key& k) { return k.name == name; });
  return key == k_keys.end() ? nullptr : key;
}

// The value as one would write it on the command line; "1" and "0" for a switch. nullopt: of another type.
std::optional<std::string> value_text(const toml::node& node, Kind kind) {
  if (kind == Kind::on_off) {
    const auto* const flag = node.as_boolean();
    return flag ? std::optional<std::string>(flag->get() ? "1" : "0") : std::nullopt;
  }
  if (const auto* const text = node.as_string()) return text->get();
  if (kind == Kind::text) return std::nullopt;
  if (const auto* const number = node.as_integer()) return std::to_string(number->get());
  if (const auto* const number = node.as_floating_point()) {
    std::array<char, 400> digits;  // fits every double in fixed notation
    const auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), number->get(), std::chars_format::fixed);
    if (error == std::errc{}) return std::string(digits.data(), end);
  }
  return std::nullopt;
}

std::string expected_type(Kind kind) {
  switch (kind) {
    case Kind::text:
      return "must be a string in quotes";
    case Kind::number:
      return "must be a number, or a string in quotes";
    case Kind::on_off:
      return "must be true or false";
  }
  return {};
}

tl::unexpected<Error> unknown_key(const std::string& where, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Key& key : k_keys) names.push_back(key.name);
  const std::string_view close = nearest_word(name, names);
  return failure(ErrorKind::config, where + ": unknown key '" + std::string(name) + "'",
                 close.empty() ? "the keys are the long option names of 'klock run'"
                               : "did you mean '" + std::string(close) + "'?");
}

// Refuses what the same file says twice under two names ("quiet" and "verbose").
Status put(RawValues& values, const std::string& name, std::string value, Origin origin,
           const std::string& where) {
  Setting<std::string>& slot = values[name];
  if (slot.origin == origin) return failure(ErrorKind::config, where + ": contradicts " + slot.where);
  slot = {std::move(value), origin, where};
  return {};
}

// nonblock, quiet and verbose. One that is off takes back what a file that counts less has switched on.
Status put_switch(RawValues& values, std::string_view name, bool is_on, Origin origin,
                  const std::string& where) {
  const char* const value = name == "nonblock" ? "wait" : "verbosity";
  const char* const on = name == "verbose" ? "1" : name == "quiet" ? "-1" : "0";
  if (is_on) return put(values, value, on, origin, where);
  const auto other = values.find(value);
  if (other != values.end() && other->second.origin < origin && other->second.value == on)
    values.erase(other);
  return {};
}

}  // namespace

Status add_config_file(std::string_view text, const std::string& path, Origin origin, RawValues& values) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const auto line = std::to_string(parsed.error().source().begin.line);
    return failure(ErrorKind::config,
                   path + ":" + line + ": not valid TOML: " + std::string(parsed.error().description()));
  }
  for (const auto& [toml_key, node] : parsed.table()) {
    const std::string where = path + ":" + std::to_string(node.source().begin.line);
    const Key* const key = find_key(toml_key.str());
    if (!key) return unknown_key(where, toml_key.str());
    std::optional<std::string> value = value_text(node, key->kind);
    if (!value)
      return failure(ErrorKind::config,
                     where + ": '" + std::string(key->name) + "' " + expected_type(key->kind));
    if (key->kind != Kind::on_off || key->name == "tree")
      KLOCK_CHECK(put(values, std::string(key->name), *std::move(value), origin, where));
    else
      KLOCK_CHECK(put_switch(values, key->name, *value == "1", origin, where));
  }
  return {};
}

}  // namespace klock
