// SPDX-License-Identifier: MIT
#include "commands/ancestors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace klock {
namespace {

constexpr std::size_t k_token_length = 32;
constexpr std::size_t k_most_ancestors = 64;
constexpr std::string_view k_host = "local:";
constexpr std::string_view k_nowhere = "none:";

std::string_view mark_of(Ground ground) {
  return ground == Ground::host ? k_host : ground == Ground::nowhere ? k_nowhere : "";
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void add(std::vector<KnownToken>& tokens, std::string_view text) {
  auto known = parse_token(text);
  const auto same = [&](const KnownToken& other) { return other.token.value == known->token.value; };
  if (known && std::none_of(tokens.begin(), tokens.end(), same)) tokens.push_back(*std::move(known));
}

// The callers come first, and are not forgotten.
void thin_out(std::vector<KnownToken>& tokens, std::size_t most) {
  if (tokens.size() <= most) return;
  const auto surplus = static_cast<std::ptrdiff_t>(tokens.size() - most);
  const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(most / 2);
  tokens.erase(middle, middle + surplus);
}

}  // namespace

std::optional<KnownToken> parse_token(std::string_view text) {
  Ground ground = Ground::store;
  for (const Ground other : {Ground::host, Ground::nowhere})
    if (text.starts_with(mark_of(other))) ground = other;
  text.remove_prefix(mark_of(ground).size());
  if (text.size() != k_token_length || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  return KnownToken{Token{std::string(text)}, ground};
}

std::string token_text(const KnownToken& known) {
  return std::string(mark_of(known.ground)) + known.token.value;
}

std::vector<KnownToken> known_tokens() {
  std::vector<KnownToken> tokens;
  for (std::string_view held = environment("KLOCK_HELD"); !held.empty();) {
    const std::size_t end = std::min(held.find(' '), held.size());
    add(tokens, held.substr(0, end));
    held.remove_prefix(std::min(end + 1, held.size()));
  }
  add(tokens, environment("KLOCK_TOKEN"));
  thin_out(tokens, k_most_ancestors);
  return tokens;
}

std::vector<Token> ancestor_tokens() {
  std::vector<Token> tokens;
  for (KnownToken& known : known_tokens())
    if (known.ground != Ground::nowhere) tokens.push_back(std::move(known.token));
  return tokens;
}

std::string held_tokens(const KnownToken& own) {
  std::vector<KnownToken> tokens = known_tokens();
  thin_out(tokens, k_most_ancestors - 1);
  std::string text;
  for (const KnownToken& known : tokens) text += token_text(known) + " ";
  return text + token_text(own);
}

}  // namespace klock
