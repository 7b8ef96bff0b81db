// SPDX-License-Identifier: MIT
#include "store/redlock/merge.hpp"

#include "store/redlock/ballot.hpp"

#include <algorithm>
#include <numeric>

namespace klock::redlock {
namespace {

constexpr char k_between_positions = ',';
constexpr std::size_t k_most_counts = 100'000;  // of claims whose events are remembered

// One hold as several servers have it.
struct Sighting {
  std::vector<const Holder*> seen;
  const LockState* state = nullptr;  // where it was seen first
};

// Which a majority has had for at least so long, or will have for so long; the least where it has none.
std::optional<Milliseconds> majority_time(const std::vector<const Holder*>& seen, std::size_t servers,
                                          std::optional<Milliseconds> Holder::*time) {
  std::vector<Milliseconds> values;
  for (const Holder* holder : seen)
    if (holder->*time) values.push_back(*(holder->*time));
  if (values.empty()) return std::nullopt;
  const Milliseconds least = *std::min_element(values.begin(), values.end());
  return quorum_value(std::move(values), servers, least);
}

Holder merge_holder(const std::vector<const Holder*>& seen, std::size_t servers) {
  const Holder* first = *std::min_element(seen.begin(), seen.end(), [](const Holder* a, const Holder* b) {
    return a->since_wall_ms < b->since_wall_ms;
  });
  Holder merged = *first;
  merged.servers = seen.size();
  merged.expires_in = majority_time(seen, servers, &Holder::expires_in);
  merged.held = majority_time(seen, servers, &Holder::held);
  for (const Holder* holder : seen) merged.fence = std::max(merged.fence, holder->fence);
  return merged;
}

std::string event_key(const Event& event) {
  return std::string(event_name(event.kind)) + ' ' + event.id + ' ' + event.lock.key;
}

std::uint64_t total(const GroupStatistics& group) {
  return std::accumulate(group.counts.begin(), group.counts.end(), std::uint64_t{0});
}

}  // namespace

LockState merge_states(const LockName& lock, const std::vector<std::optional<LockState>>& answers) {
  LockState merged;
  merged.lock = lock;
  merged.servers = answers.size();
  std::map<std::string, Sighting> sightings;  // by the holder's fingerprint
  std::size_t taken = 0;
  for (const auto& answer : answers) {
    if (!answer) continue;
    ++merged.answered;
    if (merged.lock.name.empty()) merged.lock.name = answer->lock.name;
    if (!answer->holders.empty()) ++taken;
    for (const Holder& holder : answer->holders) {
      Sighting& sighting = sightings[holder.fingerprint.empty() ? holder.id : holder.fingerprint];
      sighting.seen.push_back(&holder);
      if (sighting.state == nullptr) sighting.state = &*answer;
    }
    if (answer->waiters.size() > merged.waiters.size()) merged.waiters = answer->waiters;
  }
  const std::size_t quorum = quorum_of(merged.servers);
  const std::size_t silent = merged.servers - merged.answered;
  const auto may_hold = [&](const Sighting& sighting) { return sighting.seen.size() + silent >= quorum; };
  const bool is_held =
      std::any_of(sightings.begin(), sightings.end(), [&](const auto& one) { return may_hold(one.second); });
  const bool blocked = !is_held && merged.servers - taken < quorum;
  for (const auto& [id, sighting] : sightings) {
    if (!may_hold(sighting) && !blocked) continue;
    merged.holders.push_back(merge_holder(sighting.seen, merged.servers));
    if (merged.occupancy == Occupancy::held) continue;
    merged.occupancy = sighting.state->occupancy;
    merged.mode = sighting.state->mode;
    merged.slots = sighting.state->slots;
  }
  std::stable_sort(merged.holders.begin(), merged.holders.end(),
                   [](const Holder& a, const Holder& b) { return a.servers > b.servers; });
  return merged;
}

std::vector<LockState> merge_lists(const std::vector<std::optional<std::vector<LockState>>>& answers) {
  std::map<std::string, std::vector<std::optional<LockState>>> by_key;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    for (const LockState& state : *answers[i]) {
      auto& states = by_key[state.lock.key];
      states.resize(answers.size());
      states[i] = state;
    }
  }
  std::vector<LockState> merged;
  for (auto& [key, states] : by_key) {
    // Who answered and does not name it has nothing of it.
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (answers[i] && !states[i]) states[i].emplace();
    LockState state = merge_states(LockName{"", key}, states);
    if (state.occupancy != Occupancy::free || !state.waiters.empty()) merged.push_back(std::move(state));
  }
  std::sort(merged.begin(), merged.end(),
            [](const LockState& a, const LockState& b) { return a.lock.name < b.lock.name; });
  return merged;
}

std::vector<Event> EventMerger::merge(const std::vector<std::optional<std::vector<Event>>>& pages) {
  // What is forgotten may be told twice by a server that was silent for long.
  if (counts_.size() > k_most_counts) counts_.clear();
  std::map<std::string, std::size_t> at;  // in `merged`: of each event that is told now
  std::vector<Event> merged;
  for (std::size_t server = 0; server < pages.size(); ++server) {
    if (!pages[server]) continue;
    for (const Event& event : *pages[server]) {
      const std::string key = event_key(event);
      Count& count = counts_[key];
      const std::size_t number = ++count.seen[server];
      const std::string numbered = key + ' ' + std::to_string(number);
      if (number > count.told) {
        count.told = number;
        at[numbered] = merged.size();
        merged.push_back(event);
      } else if (const auto known = at.find(numbered); known != at.end()) {
        Event& told = merged[known->second];
        told.wall_us = std::min(told.wall_us, event.wall_us);
        told.fence = std::max(told.fence, event.fence);  // a vote that came late knows none
      }
    }
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Event& a, const Event& b) { return a.wall_us < b.wall_us; });
  return merged;
}

std::string join_positions(const std::vector<std::string>& positions) {
  std::string joined;
  for (const std::string& position : positions)
    joined += (&position == &positions.front() ? "" : std::string(1, k_between_positions)) + position;
  return joined;
}

std::vector<std::string> split_positions(const std::string& joined, std::size_t servers) {
  std::vector<std::string> positions(1);
  for (const char c : joined)
    if (c == k_between_positions)
      positions.emplace_back();
    else
      positions.back() += c;
  positions.resize(servers);
  return positions;
}

std::vector<GroupStatistics> merge_statistics(
    const std::vector<std::optional<std::vector<GroupStatistics>>>& answers) {
  std::map<std::string, const GroupStatistics*> best;
  for (const auto& answer : answers) {
    if (!answer) continue;
    for (const GroupStatistics& group : *answer) {
      const GroupStatistics*& known = best[group.group];
      if (known == nullptr || total(group) > total(*known)) known = &group;
    }
  }
  std::vector<GroupStatistics> merged;
  for (const auto& [name, group] : best) merged.push_back(*group);
  return merged;
}

}  // namespace klock::redlock
