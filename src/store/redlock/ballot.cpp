// SPDX-License-Identifier: MIT
#include "store/redlock/ballot.hpp"

#include <array>

namespace klock::redlock {
namespace {

// Those that the user can do something about, most certain first.
constexpr std::array<ErrorKind, 3> k_weighty{ErrorKind::refused, ErrorKind::config, ErrorKind::system};

// None of them says why.
std::string silent_ones(const std::vector<std::string>& servers,
                        const std::vector<std::optional<Error>>& errors) {
  std::string text;
  for (std::size_t i = 0; i < servers.size(); ++i)
    if (errors[i]) text += (text.empty() ? "; " : ", ") + servers[i];
  return text.empty() ? text : text + ": no answer";
}

}  // namespace

Error no_quorum(const std::vector<std::string>& servers, const std::vector<std::optional<Error>>& errors,
                std::optional<std::size_t> confirmed) {
  const std::size_t quorum = quorum_of(servers.size());
  const auto of_kind = [&](ErrorKind kind) {
    return static_cast<std::size_t>(std::count_if(
        errors.begin(), errors.end(), [&](const auto& error) { return error && error->kind == kind; }));
  };
  const bool somebody_says_no = std::any_of(errors.begin(), errors.end(), [](const auto& error) {
    return error && error->kind != ErrorKind::unreachable;
  });
  ErrorKind kind = somebody_says_no ? ErrorKind::not_ready : ErrorKind::unreachable;
  for (const ErrorKind weighty : k_weighty)
    if (servers.size() - of_kind(weighty) < quorum) {
      kind = weighty;
      break;
    }
  const auto answered = static_cast<std::size_t>(std::count(errors.begin(), errors.end(), std::nullopt));
  std::string what = "only " + std::to_string(confirmed.value_or(answered)) + " of " +
                     std::to_string(servers.size()) +
                     (confirmed          ? " servers have confirmed it, "
                      : somebody_says_no ? " servers take part, "
                                         : " servers answered, ") +
                     std::to_string(quorum) + " are needed";
  const auto tells = [](const auto& error) { return error && !error->what.empty(); };
  auto told = std::find_if(errors.begin(), errors.end(),
                           [&](const auto& error) { return tells(error) && error->kind == kind; });
  if (told == errors.end()) told = std::find_if(errors.begin(), errors.end(), tells);
  if (told == errors.end()) return Error{kind, what + silent_ones(servers, errors)};
  what += "; " + servers[static_cast<std::size_t>(told - errors.begin())] + ": " + (*told)->what;
  return Error{kind, std::move(what), (*told)->hint};
}

}  // namespace klock::redlock
