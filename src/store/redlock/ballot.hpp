// SPDX-License-Identifier: MIT
#pragma once

#include "store/redlock/servers.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace klock::redlock {

// How many of `servers` are a majority: of those that were configured, whether they can be reached or not.
constexpr std::size_t quorum_of(std::size_t servers) {
  return servers / 2 + 1;
}

// The state of a question of yes or no to all servers.
struct Ballot {
  std::size_t servers = 0;
  std::size_t yes = 0;
  std::size_t no = 0;
  std::size_t failed = 0;  // answered with an error, or not in time

  std::size_t open() const { return servers - yes - no - failed; }
  bool is_carried() const { return yes >= quorum_of(servers); }
  // So many have said no that those who are silent cannot outvote them.
  bool is_rejected() const { return yes + failed + open() < quorum_of(servers); }
  // A majority has answered, whatever.
  bool is_quorate() const { return yes + no >= quorum_of(servers); }
  // No answer that is still to come can carry it, nor make the majority that tells why not.
  bool is_decided() const {
    if (is_carried() || open() == 0) return true;
    const bool may_be_carried = yes + open() >= quorum_of(servers);
    const bool may_be_quorate = yes + no + open() >= quorum_of(servers);
    return !may_be_carried && (is_quorate() || !may_be_quorate);
  }
};

// `is_yes(answer, index)` of each value; what is an error has failed, what is missing is open.
template <class Answer, class IsYes>
Ballot count(const Answers<Answer>& answers, const IsYes& is_yes) {
  Ballot ballot{answers.size()};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    if (!*answers[i])
      ++ballot.failed;
    else
      ++(is_yes(**answers[i], i) ? ballot.yes : ballot.no);
  }
  return ballot;
}

// Whether a majority has answered.
template <class Answer>
bool is_quorate(const Answers<Answer>& answers) {
  return count(answers, [](const Answer&, std::size_t) { return true; }).is_carried();
}

// Of all the `value`s that are reached on a majority of `servers` the greatest; `least` if they are too few.
template <class Value>
Value quorum_value(std::vector<Value> values, std::size_t servers, Value least) {
  const std::size_t quorum = quorum_of(servers);
  if (values.size() < quorum) return least;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(quorum - 1);
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

// Why there is no majority: `errors` are in the servers' order (nullopt: it answered; unreachable with an
// empty text: silent). Refused only where the refusals alone prevent a majority; unreachable only where
// nobody says no, else not_ready: whoever says no is obeyed. `confirmed`: how many said yes, where a majority
// has answered but not with yes.
Error no_quorum(const std::vector<std::string>& servers, const std::vector<std::optional<Error>>& errors,
                std::optional<std::size_t> confirmed = std::nullopt);

template <class Answer>
tl::unexpected<Error> no_quorum_of(const std::vector<std::string>& servers, const Answers<Answer>& answers,
                                   std::optional<std::size_t> confirmed = std::nullopt) {
  std::vector<std::optional<Error>> errors;
  for (const auto& answer : answers)
    if (!answer)
      errors.emplace_back(Error{ErrorKind::unreachable, {}});
    else if (!*answer)
      errors.emplace_back(answer->error());
    else
      errors.emplace_back(std::nullopt);
  return tl::unexpected(no_quorum(servers, errors, confirmed));
}

}  // namespace klock::redlock
