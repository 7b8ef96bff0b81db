// SPDX-License-Identifier: MIT
#include "commands/tokens.hpp"

#include "config/read_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

namespace klock {
namespace {

Result<KnownToken> checked(std::string_view text, const std::string& where, ErrorKind kind) {
  if (auto known = parse_token(text)) return *std::move(known);
  return failure(kind, where + " is not a token: 32 hexadecimal digits",
                 "klock acquire prints it as KLOCK_TOKEN");
}

Result<KnownToken> read_token(const std::string& path) {
  const auto text = read_config_text(path);
  if (!text)
    return failure(ErrorKind::system,
                   "--token-file: cannot read " + path + ": " + std::strerror(text.error()));
  std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return checked(line, "--token-file: the first line of " + path, ErrorKind::config);
}

}  // namespace

Result<std::vector<KnownToken>> find_tokens(const std::optional<std::string>& given,
                                            const std::optional<std::string>& file) {
  if (given || file) {
    KLOCK_TRY(token,
              given ? checked(*given, "--token: what was given", ErrorKind::usage) : read_token(*file));
    return std::vector<KnownToken>{std::move(token)};
  }
  const char* const ours = std::getenv("KLOCK_TOKEN");
  if (ours == nullptr || *ours == '\0')
    return failure(ErrorKind::usage, "there is no token: KLOCK_TOKEN is not set",
                   "eval \"$(klock acquire NAME)\" sets it; or use --token-file FILE");
  KLOCK_TRY(token, checked(ours, "KLOCK_TOKEN", ErrorKind::config));
  std::vector<KnownToken> tokens{std::move(token)};
  const std::vector<KnownToken> held = known_tokens();
  std::copy_if(held.rbegin(), held.rend(), std::back_inserter(tokens),
               [&](const KnownToken& other) { return other.token.value != tokens.front().token.value; });
  return tokens;
}

}  // namespace klock
