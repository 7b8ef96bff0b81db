// SPDX-License-Identifier: MIT
#include "store/redlock/decisions.hpp"

#include <gtest/gtest.h>

namespace klock::redlock {
namespace {

constexpr Instant k_soon{std::chrono::seconds(100)};
constexpr Instant k_later{std::chrono::seconds(200)};

Result<Attempt> vote(std::uint64_t fence, bool joined = false, Instant deadline = k_later) {
  return Attempt(Lease{Instant{}, deadline, fence, joined});
}

Result<Attempt> vote_for(const std::string& id) {
  Busy busy;
  busy.holder.emplace();
  busy.holder->id = id;
  return Attempt(busy);
}

template <class Answer>
Result<Answer> failed(ErrorKind kind = ErrorKind::unreachable) {
  return failure(kind, "it failed", "do something");
}

Result<Renewal> renewed(Instant deadline, bool reclaimed = false) {
  Renewed answer{deadline};
  answer.reclaimed = reclaimed;
  return Renewal(answer);
}

Result<Renewal> not_mine() {
  return Renewal(NotMine{});
}
Result<Renewal> gone() {
  return Renewal(Gone{});
}

const std::vector<bool> k_none_lacks(5, false);

TEST(Quorum, IsMoreThanHalfOfTheConfigured) {
  EXPECT_EQ(quorum_of(3), 2U);
  EXPECT_EQ(quorum_of(4), 3U);
  EXPECT_EQ(quorum_of(5), 3U);
}

TEST(Quorum, TheGreatestValueThatAMajorityReaches) {
  EXPECT_EQ(quorum_value<int>({5, 1, 4, 3, 2}, 5, 0), 3);
  EXPECT_EQ(quorum_value<int>({5, 4, 3}, 5, 0), 3);
  EXPECT_EQ(quorum_value<int>({5, 4}, 5, 0), 0) << "the others may have nothing";
}

TEST(Ballot, IsDecidedOnceNothingThatComesCanChangeIt) {
  EXPECT_TRUE((Ballot{5, 3, 0, 0}.is_decided()));
  EXPECT_FALSE((Ballot{5, 2, 0, 2}.is_decided()));
  EXPECT_TRUE((Ballot{5, 0, 3, 0}.is_decided()));
  EXPECT_FALSE((Ballot{5, 1, 1, 1}.is_decided()));
  EXPECT_FALSE((Ballot{5, 1, 1, 2}.is_decided())) << "the last one tells whether a majority answers";
  EXPECT_TRUE((Ballot{5, 0, 0, 3}.is_decided())) << "no majority is left";
  EXPECT_TRUE((Ballot{5, 2, 1, 2}.is_decided()));
}

TEST(Ballot, OfAnEvenNumberHalfIsNotEnough) {
  EXPECT_FALSE((Ballot{4, 2, 0, 0}.is_carried()));
  EXPECT_TRUE((Ballot{4, 0, 2, 0}.is_rejected())) << "the other two are no majority";
}

TEST(Election, AMajorityOfTheConfiguredHasToVoteForUs) {
  EXPECT_TRUE(elect({vote(1), vote(9), vote(3), std::nullopt, std::nullopt}).held.is_carried());
  EXPECT_EQ(elect({vote(1), vote(9), vote(3), std::nullopt, std::nullopt}).fence, 9U);
  EXPECT_FALSE(
      elect({vote(1), vote(2), failed<Attempt>(), failed<Attempt>(), failed<Attempt>()}).held.is_carried());
  EXPECT_EQ(enough_of({vote(1), vote(2), std::nullopt, std::nullopt, std::nullopt}), Enough::no);
  EXPECT_EQ(enough_of({vote(1), vote(2), vote(1), std::nullopt, std::nullopt}), Enough::yes);
  EXPECT_EQ(enough_of({vote_for("a"), vote_for("a"), vote_for("a"), std::nullopt, std::nullopt}),
            Enough::yes);
  EXPECT_EQ(enough_of({failed<Attempt>(), failed<Attempt>(), failed<Attempt>(), std::nullopt, std::nullopt}),
            Enough::nearly);
}

TEST(Election, TellsAHolderFromSeveralWhoCameAtOnce) {
  const auto held = elect({vote(1), vote_for("a"), vote_for("a"), vote_for("b"), vote_for("a")});
  ASSERT_TRUE(held.holder);
  EXPECT_EQ(held.holder->id, "a");
  EXPECT_FALSE(held.is_split());
  EXPECT_TRUE(elect({vote(1), vote(1), vote_for("a"), vote_for("a"), vote_for("b")}).is_split());
}

TEST(Election, AnAncestorsHoldIsJoinedWhereAMajorityHasIt) {
  const auto joined =
      elect({vote(7, true, k_later), vote(7, true, k_soon), vote(50), std::nullopt, vote(7, true, k_later)});
  ASSERT_TRUE(joined.joined.is_carried());
  EXPECT_FALSE(joined.held.is_carried());
  EXPECT_EQ(joined.fence, 7U);
  EXPECT_EQ(joined.joined_until, k_soon) << "only so long three of them have it";
}

TEST(RenewalBallot, LastsAsLongAsAMajorityHasIt) {
  const auto judged =
      judge_renewal({renewed(k_later), renewed(k_later), renewed(k_soon), not_mine(), failed<Renewal>()},
                    k_none_lacks, false);
  ASSERT_TRUE(judged.outcome);
  EXPECT_EQ(std::get<Renewed>(*judged.outcome).deadline, k_soon);
}

TEST(RenewalBallot, IsDoubtUntilAMajoritySaysNo) {
  EXPECT_FALSE(judge_renewal({renewed(k_later), renewed(k_later), not_mine(), gone(), failed<Renewal>()},
                             k_none_lacks, false)
                   .outcome);
  const auto lost =
      judge_renewal({gone(), renewed(k_later), not_mine(), gone(), failed<Renewal>()}, k_none_lacks, false);
  ASSERT_TRUE(lost.outcome);
  EXPECT_TRUE(std::holds_alternative<NotMine>(*lost.outcome));
  const auto vanished =
      judge_renewal({gone(), gone(), gone(), std::nullopt, std::nullopt}, k_none_lacks, false);
  EXPECT_TRUE(std::holds_alternative<Gone>(*vanished.outcome));
}

TEST(RenewalBallot, OneThatHadLostItCountsOnlyWithReclaim) {
  const Answers<Renewal> answers{renewed(k_later, true), renewed(k_later, true), renewed(k_later, true),
                                 renewed(k_later), renewed(k_later)};
  const auto lost = judge_renewal(answers, k_none_lacks, false);
  ASSERT_TRUE(lost.outcome);
  EXPECT_TRUE(std::holds_alternative<Gone>(*lost.outcome));
  const auto reclaimed = judge_renewal(answers, k_none_lacks, true);
  EXPECT_TRUE(std::get<Renewed>(*reclaimed.outcome).reclaimed);
  const auto added = judge_renewal(answers, {true, true, true, false, false}, false);
  ASSERT_TRUE(added.outcome);
  EXPECT_FALSE(std::get<Renewed>(*added.outcome).reclaimed) << "they never had it";
}

TEST(RenewalBallot, AnyServerMayPassOnTheOrderToStop) {
  Renewed asked{k_later};
  asked.stop = StopRequest{"me@here", "why not"};
  const auto judged = judge_renewal(
      {renewed(k_later), Result<Renewal>(Renewal(asked)), renewed(k_later), std::nullopt, std::nullopt},
      k_none_lacks, false);
  EXPECT_EQ(std::get<Renewed>(*judged.outcome).stop->by, "me@here");
}

TEST(Release, IsALossWhenAMajorityDoesNotHaveIt) {
  using R = Result<Released>;
  EXPECT_EQ(judge_release({R(Released::done), R(Released::done), failed<Released>()}), Released::done);
  EXPECT_EQ(judge_release({R(Released::done), R(Released::gone), R(Released::not_mine)}), Released::not_mine);
  EXPECT_EQ(judge_release({R(Released::gone), R(Released::gone), std::nullopt}), Released::gone);
  EXPECT_EQ(judge_release({R(Released::done), R(Released::gone), failed<Released>()}), Released::done);
  EXPECT_EQ(judge_release({R(Released::done), failed<Released>(), failed<Released>()}), std::nullopt);
}

TEST(Release, IsDecidedOnceAMajorityIsFreeOrNoneIsLeft) {
  using R = Result<Released>;
  EXPECT_FALSE(is_decided({R(Released::done), std::nullopt, std::nullopt}));
  EXPECT_TRUE(is_decided({R(Released::done), R(Released::gone), std::nullopt})) << "the third may never come";
  EXPECT_TRUE(
      is_decided({R(Released::done), R(Released::gone), R(Released::done), std::nullopt, std::nullopt}));
  EXPECT_FALSE(is_decided({R(Released::done), R(Released::not_mine), std::nullopt}))
      << "the third tells whether somebody else has got it";
  EXPECT_TRUE(is_decided({R(Released::done), R(Released::not_mine), failed<Released>()}));
}

TEST(Eviction, CountsWhereItWasDone) {
  using E = Result<Eviction>;
  EXPECT_EQ(judge_eviction({E(Eviction::gone), E(Eviction::done), E(Eviction::gone)}), Eviction::done);
  EXPECT_EQ(judge_eviction({E(Eviction::gone), E(Eviction::changed), failed<Eviction>()}), Eviction::changed);
  EXPECT_EQ(judge_eviction({E(Eviction::done), failed<Eviction>(), std::nullopt}), std::nullopt);
}

TEST(NoQuorum, SaysHowManyAnsweredAndWhyOneDidNot) {
  const std::vector<std::string> names{"a:1", "b:2", "c:3"};
  const Error silent = no_quorum(names, {std::nullopt, Error{ErrorKind::unreachable, {}},
                                         Error{ErrorKind::unreachable, "cannot connect", "start it"}});
  EXPECT_EQ(silent.kind, ErrorKind::unreachable);
  EXPECT_EQ(silent.what, "only 1 of 3 servers answered, 2 are needed; c:3: cannot connect");
  EXPECT_EQ(silent.hint, "start it");
}

TEST(NoQuorum, NamesTheSilentOnesWhereNobodySaysWhy) {
  const std::vector<std::string> names{"a:1", "b:2", "c:3"};
  const Error silent{ErrorKind::unreachable, {}};
  EXPECT_EQ(no_quorum(names, {std::nullopt, silent, silent}).what,
            "only 1 of 3 servers answered, 2 are needed; b:2, c:3: no answer");
}

TEST(NoQuorum, WhoeverSaysNoHasAnsweredAndTakesNoPart) {
  const std::vector<std::string> names{"a:1", "b:2", "c:3"};
  const Error silent{ErrorKind::unreachable, {}};
  for (const ErrorKind kind :
       {ErrorKind::not_ready, ErrorKind::refused, ErrorKind::config, ErrorKind::protocol, ErrorKind::system})
    EXPECT_EQ(no_quorum(names, {std::nullopt, silent, Error{kind, "no"}}).what,
              "only 1 of 3 servers take part, 2 are needed; c:3: no");
}

TEST(NoQuorum, WhereAMajorityAnswersTellsHowManySaidYes) {
  const std::vector<std::string> names{"a:1", "b:2", "c:3"};
  const Error silent{ErrorKind::unreachable, {}};
  EXPECT_EQ(no_quorum(names, {std::nullopt, std::nullopt, silent}, 1).what,
            "only 1 of 3 servers have confirmed it, 2 are needed; c:3: no answer");
}

TEST(NoQuorum, IsRefusedOnlyWhereTheRefusalsPreventAMajority) {
  const std::vector<std::string> names{"a:1", "b:2", "c:3"};
  const Error no{ErrorKind::refused, "NOAUTH"};
  const Error away{ErrorKind::unreachable, "cannot connect"};
  EXPECT_EQ(no_quorum(names, {no, no, std::nullopt}).kind, ErrorKind::refused);
  EXPECT_EQ(no_quorum(names, {no, away, std::nullopt}).kind, ErrorKind::not_ready);
}

}  // namespace
}  // namespace klock::redlock
