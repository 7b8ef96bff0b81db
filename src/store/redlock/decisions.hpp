// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redlock/ballot.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace klock::redlock {

// What the answers of several servers amount to. All pure.

// How the servers voted for a claim.
struct Election {
  Ballot held;                               // yes: the vote is ours
  Ballot joined;                             // yes: it is the hold of an ancestor, which we have joined
  std::uint64_t fence = 0;                   // the greatest proposed, or that of the joined hold
  std::optional<Instant> joined_until = {};  // a majority has the joined hold until then
  std::optional<Holder> holder = {};         // who has most of the other votes
  bool cooldown = false;
  std::size_t most_of_another = 0;  // votes

  // Nobody can have a majority: several came at once.
  bool is_split() const { return most_of_another + held.failed + held.open() < quorum_of(held.servers); }
};
Election elect(const Answers<Attempt>& votes);
// nearly: there can be no majority for anything any more, and the others only matter for the message; or it
// is joined, which all should know of.
Enough enough_of(const Answers<Attempt>& votes);

// What a renewal or confirmation amounts to. `lacking[i]`: server i did not have it at the last one. Any
// other that adds it again (Renewed::reclaimed) may have lost it since: that counts only with `reclaim`. No
// outcome: no majority says anything.
struct RenewalBallot {
  Ballot ballot;
  std::optional<Renewal> outcome;
};
RenewalBallot judge_renewal(const Answers<Renewal>& answers, const std::vector<bool>& lacking, bool reclaim);

// nullopt: no majority has answered. More answers may change it until it is decided, and then no more than
// whether a hold of which a majority has nothing left was lost before.
bool is_decided(const Answers<Released>& answers);
std::optional<Released> judge_release(const Answers<Released>& answers);

// Of ask_stop() and remove().
std::optional<Eviction> judge_eviction(const Answers<Eviction>& answers);

}  // namespace klock::redlock
