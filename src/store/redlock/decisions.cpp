// SPDX-License-Identifier: MIT
#include "store/redlock/decisions.hpp"

#include <map>

namespace klock::redlock {
namespace {

bool is_held(const Attempt& attempt) {
  const auto* lease = std::get_if<Lease>(&attempt);
  return lease != nullptr && !lease->joined;
}

bool is_joined(const Attempt& attempt) {
  const auto* lease = std::get_if<Lease>(&attempt);
  return lease != nullptr && lease->joined;
}

// Of the values alone, with their index.
template <class Answer, class Visit>
void for_values(const Answers<Answer>& answers, const Visit& visit) {
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i] && *answers[i]) visit(**answers[i], i);
}

Ballot count_done(const Answers<Released>& answers) {
  return count(answers, [](Released answer, std::size_t) { return answer == Released::done; });
}

}  // namespace

Election elect(const Answers<Attempt>& votes) {
  Election election;
  election.held = count(votes, [](const Attempt& vote, std::size_t) { return is_held(vote); });
  election.joined = count(votes, [](const Attempt& vote, std::size_t) { return is_joined(vote); });
  std::map<std::string, std::size_t> others;
  std::vector<Instant> joined_until;
  std::uint64_t joined_fence = 0;
  for_values(votes, [&](const Attempt& vote, std::size_t) {
    if (const auto* lease = std::get_if<Lease>(&vote)) {
      std::uint64_t& fence = lease->joined ? joined_fence : election.fence;
      fence = std::max(fence, lease->fence);
      if (lease->joined) joined_until.push_back(lease->deadline);
    } else if (const auto* busy = std::get_if<Busy>(&vote); busy != nullptr && busy->holder) {
      const std::size_t count = ++others[busy->holder->id];
      if (count <= election.most_of_another) return;
      election.most_of_another = count;
      election.holder = busy->holder;
      election.cooldown = busy->cooldown;
    }
  });
  if (election.joined.is_carried()) {
    election.fence = joined_fence;
    election.joined_until = quorum_value(std::move(joined_until), votes.size(), Instant{});
  }
  return election;
}

Enough enough_of(const Answers<Attempt>& votes) {
  const Election election = elect(votes);
  if (election.held.is_carried()) return Enough::yes;
  if (election.joined.is_carried()) return Enough::nearly;
  if (!election.held.is_decided() || !election.joined.is_decided()) return Enough::no;
  return election.held.is_quorate() ? Enough::yes : Enough::nearly;
}

RenewalBallot judge_renewal(const Answers<Renewal>& answers, const std::vector<bool>& lacking, bool reclaim) {
  RenewalBallot result;
  std::vector<Instant> deadlines;
  Renewed renewed;
  NotMine other;
  std::size_t others = 0;
  std::optional<StopRequest> removed;
  result.ballot = count(answers, [&](const Renewal& answer, std::size_t i) {
    const auto* yes = std::get_if<Renewed>(&answer);
    return yes != nullptr && (!yes->reclaimed || lacking[i] || reclaim);
  });
  for_values(answers, [&](const Renewal& answer, std::size_t i) {
    if (const auto* yes = std::get_if<Renewed>(&answer)) {
      if (yes->stop && !renewed.stop) renewed.stop = yes->stop;
      if (yes->reclaimed && !lacking[i] && !reclaim) return;
      deadlines.push_back(yes->deadline);
      renewed.joined |= yes->joined;
      renewed.reclaimed |= yes->reclaimed && !lacking[i];
    } else if (const auto* not_mine = std::get_if<NotMine>(&answer)) {
      if (others++ == 0) other.holder = not_mine->holder;
      if (!removed) removed = not_mine->removed;
    } else if (const auto* gone = std::get_if<Gone>(&answer); gone != nullptr && !removed) {
      removed = gone->removed;
    }
  });
  if (result.ballot.is_carried()) {
    renewed.deadline = quorum_value(std::move(deadlines), answers.size(), Instant{});
    // A part of them reclaimed is no news: a majority has had it all the time.
    const std::size_t kept = count(answers, [](const Renewal& answer, std::size_t) {
                               const auto* yes = std::get_if<Renewed>(&answer);
                               return yes != nullptr && !yes->reclaimed;
                             }).yes;
    renewed.reclaimed = renewed.reclaimed && kept < quorum_of(answers.size());
    result.outcome = std::move(renewed);
  } else if (result.ballot.is_rejected()) {
    if (others > 0) {
      other.removed = std::move(removed);
      result.outcome = std::move(other);
    } else {
      result.outcome = Gone{std::move(removed)};
    }
  }
  return result;
}

bool is_decided(const Answers<Released>& answers) {
  const Ballot done = count_done(answers);
  if (done.is_carried() || done.is_rejected() || done.open() == 0) return true;
  // Whoever is silent may have it until its lease ends, but makes no majority.
  const Ballot free =
      count(answers, [](const Released& answer, std::size_t) { return answer != Released::not_mine; });
  return free.is_carried();
}

// One that does not have it is no loss as long as a majority may have had it.
std::optional<Released> judge_release(const Answers<Released>& answers) {
  const Ballot done = count_done(answers);
  if (done.is_carried()) return Released::done;
  if (done.is_rejected()) {
    const Ballot others =
        count(answers, [](const Released& answer, std::size_t) { return answer == Released::not_mine; });
    return others.yes > 0 ? Released::not_mine : Released::gone;
  }
  if (done.is_quorate()) return Released::done;
  return std::nullopt;
}

std::optional<Eviction> judge_eviction(const Answers<Eviction>& answers) {
  if (!is_quorate(answers)) return std::nullopt;
  for (const Eviction word : {Eviction::done, Eviction::foreign, Eviction::changed})
    if (count(answers, [&](const Eviction& answer, std::size_t) { return answer == word; }).yes > 0)
      return word;
  return Eviction::gone;
}

}  // namespace klock::redlock
