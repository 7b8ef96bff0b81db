// SPDX-License-Identifier: MIT
#include "store/redlock/redlock_session.hpp"

#include "config/duration.hpp"
#include "store/redis/connection.hpp"
#include "util/random.hpp"

#include <algorithm>

namespace klock::redlock {
namespace {

constexpr Duration k_shortest_time = Milliseconds(50);  // for one server's answer
constexpr Duration k_longest_time = Milliseconds(2000);
constexpr Duration k_first_pause = Milliseconds(40);  // between attempts
constexpr Duration k_longest_pause = Milliseconds(320);
constexpr int k_tries_when_split = 4;
constexpr Duration k_grace = Milliseconds(100);  // for those that a release may yet reach
constexpr Duration k_note_time = Milliseconds(300);
// A renewal finds out who lacks a new hold, and the next gives it to them.
constexpr int k_early_renewals = 2;
constexpr Duration k_longest_before_early = Milliseconds(1000);

std::vector<std::unique_ptr<redis::Session>> sessions_of(const RedlockUrl& url, const std::string& prefix,
                                                         const Claim& claim) {
  // What becomes of a record that has vanished is decided by all.
  Claim part = claim;
  part.reclaim = false;
  std::vector<std::unique_ptr<redis::Session>> sessions;
  for (const RedisUrl& server : url.servers)
    sessions.push_back(std::make_unique<redis::Session>(server, prefix, part));
  return sessions;
}

std::vector<std::string> names_of(const RedlockUrl& url) {
  std::vector<std::string> names;
  for (const RedisUrl& server : url.servers) names.push_back(redis::describe_endpoint(server));
  return names;
}

template <class Answer>
std::vector<bool> has_answered(const Answers<Answer>& answers) {
  std::vector<bool> answered;
  for (const auto& answer : answers) answered.push_back(answer.has_value());
  return answered;
}

bool contains(const std::vector<bool>& all, bool one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// From half of `pause` to one and a half.
Duration about(Duration pause) {
  return pause / 2 +
         Duration(static_cast<Duration::rep>(random_below(static_cast<std::uint64_t>(pause.count()))));
}

}  // namespace

RedlockSession::RedlockSession(const RedlockUrl& url, const std::string& prefix, Claim claim)
    : claim_(std::move(claim)),
      names_(names_of(url)),
      server_time_(std::clamp<Duration>(claim_.ttl / 4, k_shortest_time, k_longest_time)),
      servers_(sessions_of(url, prefix, claim_)),
      ours_(names_.size()),
      unheard_(names_.size()),
      lacking_(names_.size()),
      pause_(k_first_pause) {}

void RedlockSession::begin(bool, Instant, Interrupt) {}

Result<Attempt> RedlockSession::attempt(bool enqueue, Instant deadline, Interrupt interrupt) {
  for (int tries = 1;; ++tries) {
    auto outcome = try_once(deadline, interrupt);
    if (!outcome) return tl::unexpected(std::move(outcome).error());
    if (*outcome) return **std::move(outcome);
    const Instant again = BootClock::now() + about(k_first_pause * tries / 2);
    if (holder_ || tries == k_tries_when_split || again >= deadline) return busy(enqueue, deadline);
    if (wait_ready(-1, 0, again, interrupt) == Ready::interrupted) return Attempt(Interrupted{});
  }
}

RedlockSession::Try RedlockSession::try_once(Instant deadline, Interrupt interrupt) {
  servers_.interrupt();
  asked_ = true;
  const Instant sent = BootClock::now();
  const Instant until = std::min(deadline, sent + server_time_);
  bool interrupted = false;
  const auto votes = servers_.ask<Attempt>(
      [until](redis::Session& session, std::size_t, Interrupt over) { return session.vote(until, over); },
      enough_of, {until, k_grace}, interrupt, interrupted);
  for (std::size_t i = 0; i < votes.size(); ++i) {
    ours_[i] = votes[i] && *votes[i] && std::holds_alternative<Lease>(**votes[i]);
    unheard_[i] = !votes[i];
  }
  if (interrupted) return Attempt(Interrupted{});
  const Election election = elect(votes);
  if (election.joined.is_carried()) return Attempt(joined(votes, election));
  if (election.held.is_carried()) return settle(election, sent, interrupt);
  give_back(deadline);
  if (!election.held.is_quorate()) {
    auto none = no_quorum_of(names_, votes);
    // Some know of a holder: nobody is to run beside him because the others are away.
    if (election.held.no > 0 && none.value().kind == ErrorKind::unreachable)
      none.value().kind = ErrorKind::not_ready;
    return none;
  }
  holder_ = election.is_split() ? std::nullopt : election.holder;
  cooldown_ = election.cooldown;
  return std::nullopt;
}

// The majority is ours: before anything runs a majority has to know the fence, so that whoever comes next
// gets a greater one.
RedlockSession::Try RedlockSession::settle(const Election& election, Instant sent, Interrupt interrupt) {
  const Lease lease{BootClock::now(), lease_deadline(sent, claim_.ttl), holding_ ? fence_ : election.fence};
  const Instant until = std::min(lease.deadline, lease.acquired_at + server_time_);
  const auto is_done = [](bool done, std::size_t) { return done; };
  bool interrupted = false;
  const auto answers = servers_.ask<bool>(
      [fence = lease.fence, time = waited(), until](redis::Session& session, std::size_t, Interrupt over) {
        return session.settle(fence, time, until, over);
      },
      [&](const Answers<bool>& some) { return count(some, is_done).is_decided() ? Enough::yes : Enough::no; },
      {until}, interrupt, interrupted);
  if (interrupted) return Attempt(Interrupted{});
  const Ballot settled = count(answers, is_done);
  if (settled.is_carried() && BootClock::now() + claim_.ttl / 3 < lease.deadline) {
    holding_ = true;
    fence_ = lease.fence;
    lacking_.assign(names_.size(), false);
    early_renewals_ = contains(ours_, false) ? k_early_renewals : 0;
    waiting_since_.reset();
    // A script's process forks its keeper next.
    if (claim_.for_script) servers_.stop();
    return Attempt(lease);
  }
  give_back(until);
  holder_.reset();
  if (settled.is_quorate()) return std::nullopt;
  return no_quorum_of(names_, answers);
}

Lease RedlockSession::joined(const Answers<Attempt>& votes, const Election& election) {
  holding_ = joined_ = true;
  waiting_since_.reset();
  // Where the ancestor's record was missing the vote made one of our own.
  for (std::size_t i = 0; i < votes.size(); ++i) ours_[i] = ours_[i] && std::get<Lease>(**votes[i]).joined;
  bool interrupted = false;
  const Instant until = BootClock::now() + server_time_;
  servers_.ask<Released>(
      [ours = ours_, until](redis::Session& session, std::size_t i, Interrupt over) -> Result<Released> {
        return ours[i] ? Released::gone : session.take_back(until, over);
      },
      [](const auto&) { return Enough::yes; }, {until, {}, true}, Interrupt{}, interrupted);
  if (claim_.for_script) servers_.stop();
  return Lease{BootClock::now(), *election.joined_until, election.fence, true};
}

Result<Attempt> RedlockSession::busy(bool enqueue, Instant deadline) {
  Busy result;
  result.holder = holder_;
  result.cooldown = cooldown_;
  result.look_again = BootClock::now() + about(pause_);
  pause_ = std::min(pause_ * 2, k_longest_pause);
  if (!enqueue) {
    note(EventKind::timed_out, {}, deadline);
    waiting_since_.reset();
  } else if (!waiting_since_) {
    note(EventKind::waiting, {}, deadline);
    waiting_since_ = BootClock::now();
  }
  return Attempt(std::move(result));
}

Result<Wake> RedlockSession::await_news(Instant until, Interrupt interrupt) {
  if (!holding_) {
    const bool interrupted = wait_ready(-1, 0, until, interrupt) == Ready::interrupted;
    return interrupted ? Wake::interrupted : Wake::timeout;
  }
  // Whatever ends this is followed by a renewal.
  const Instant early = BootClock::now() + std::min(claim_.ttl / 10, k_longest_before_early);
  const bool is_early = early_renewals_ > 0 && early < until;
  if (is_early) until = early;
  early_renewals_ = std::max(early_renewals_ - 1, 0);
  const auto is_news = [](Wake wake, std::size_t) { return wake == Wake::news; };
  bool interrupted = false;
  const auto wakes = servers_.ask<Wake>([until](redis::Session& session, std::size_t,
                                                Interrupt over) { return session.await_news(until, over); },
                                        [&](const Answers<Wake>& answers) {
                                          const Ballot news = count(answers, is_news);
                                          const bool few_are_left =
                                              news.servers - news.failed < quorum_of(news.servers);
                                          return news.yes > 0 || few_are_left ? Enough::yes : Enough::no;
                                        },
                                        {until}, interrupt, interrupted);
  servers_.interrupt();
  if (interrupted) return Wake::interrupted;
  const Ballot news = count(wakes, is_news);
  if (news.yes > 0) return Wake::news;
  if (news.servers - news.failed < quorum_of(news.servers)) return no_quorum_of(names_, wakes);
  return is_early ? Wake::news : Wake::timeout;
}

// Everything that we may have got, also where the answer has not come. Those that gave us something, or have
// not said that they did not, are waited for: whoever ends before they have been told leaves it to them for a
// whole lease.
Instant RedlockSession::give_back(Instant deadline) {
  servers_.interrupt();
  const Instant until = std::min(deadline, BootClock::now() + server_time_);
  bool interrupted = false;
  servers_.ask<Released>(
      [until](redis::Session& session, std::size_t, Interrupt over) {
        return session.take_back(until, over);
      },
      [this](const Answers<Released>& answers) { return with_all_of_ours(true, has_answered(answers)); },
      {until, k_grace, true}, Interrupt{}, interrupted);
  ours_.assign(names_.size(), false);
  unheard_ = ours_;
  holding_ = joined_ = false;
  return until;
}

void RedlockSession::withdraw(Instant deadline) {
  if (std::exchange(asked_, false)) give_back(deadline);
  if (!waiting_since_) return;
  note(end_kind_.value_or(EventKind::gave_up), end_reason_, deadline);
  waiting_since_.reset();
}

std::optional<std::uint64_t> RedlockSession::settled_fence() const {
  return holding_ && !joined_ ? std::optional(fence_) : std::nullopt;
}

Milliseconds RedlockSession::waited() const {
  if (!waiting_since_) return Milliseconds(0);
  return std::chrono::floor<Milliseconds>(BootClock::now() - *waiting_since_);
}

// For the log alone: best effort.
void RedlockSession::note(EventKind kind, const std::string& reason, Instant deadline) {
  const Instant until = std::min(deadline, BootClock::now() + k_note_time);
  bool interrupted = false;
  servers_.ask<bool>(
      [=, time = waited()](redis::Session& session, std::size_t, Interrupt over) {
        return answer_of(session.note(kind, reason, time, until, over));
      },
      [](const Answers<bool>& answers) { return is_quorate(answers) ? Enough::yes : Enough::no; }, {until},
      Interrupt{}, interrupted);
}

Result<Renewal> RedlockSession::renew(Instant deadline, Interrupt interrupt) {
  return confirm_or_renew(true, deadline, interrupt);
}

Result<Renewal> RedlockSession::confirm(Instant deadline, Interrupt interrupt) {
  return confirm_or_renew(false, deadline, interrupt);
}

Result<Renewal> RedlockSession::confirm_or_renew(bool extends, Instant deadline, Interrupt interrupt) {
  servers_.interrupt();
  const auto judge = [this](const Answers<Renewal>& answers) {
    return judge_renewal(answers, lacking_, claim_.reclaim);
  };
  bool interrupted = false;
  const auto answers = servers_.ask<Renewal>(
      [extends, deadline, settled = settled_fence(), ours = ours_, lacking = lacking_, joined = joined_,
       reclaim = claim_.reclaim](redis::Session& session, std::size_t i, Interrupt over) -> Result<Renewal> {
        if (joined && !ours[i]) return Renewal(Gone{});
        if (settled) session.hold_as(*settled, lacking[i] || reclaim);
        return extends ? session.renew(deadline, over) : session.confirm(deadline, over);
      },
      // All are to know of it, so that whoever asks another majority next hears the same.
      [&](const Answers<Renewal>& some) {
        const auto outcome = judge(some).outcome;
        if (!outcome) return Enough::no;
        return std::holds_alternative<Renewed>(*outcome) ? Enough::nearly : Enough::yes;
      },
      {deadline, k_grace}, interrupt, interrupted);
  if (interrupted) return Renewal(Interrupted{});
  RenewalBallot judged = judge(answers);
  if (!judged.outcome) {
    const bool quorate = judged.ballot.is_quorate();
    return no_quorum_of(names_, answers, quorate ? std::optional(judged.ballot.yes) : std::nullopt);
  }
  // One that does not have it gets it at the next renewal, now that a majority has confirmed it.
  for (std::size_t i = 0; extends && holding_ && !joined_ && i < answers.size(); ++i) {
    if (!answers[i] || !*answers[i]) continue;
    ours_[i] = std::holds_alternative<Renewed>(**answers[i]);
    lacking_[i] = !ours_[i];
    unheard_[i] = false;
  }
  if (!contains(ours_, false)) early_renewals_ = 0;
  // A server that gets the hold tells nothing of it, as it cannot know whether the majority had lost it.
  const auto* renewed = std::get_if<Renewed>(&*judged.outcome);
  if (renewed != nullptr && renewed->reclaimed) note(EventKind::reclaimed, {}, deadline);
  return *std::move(judged.outcome);
}

// With those that have, or may have, something of ours; nearly, without.
Enough RedlockSession::with_all_of_ours(bool decided, const std::vector<bool>& answered) const {
  if (!decided) return Enough::no;
  bool all = holding_ || asked_;  // else we don't know
  for (std::size_t i = 0; i < answered.size(); ++i) all &= answered[i] || !(ours_[i] || unheard_[i]);
  return all ? Enough::yes : Enough::nearly;
}

Result<Released> RedlockSession::release(Instant deadline, Interrupt interrupt) {
  servers_.interrupt();
  bool interrupted = false;
  const auto answers = servers_.ask<Released>(
      [deadline, settled = settled_fence(), kind = end_kind_, reason = end_reason_,
       counts = min_hold_counts_](redis::Session& session, std::size_t, Interrupt over) -> Result<Released> {
        if (settled) session.hold_as(*settled, false);
        KLOCK_CHECK(session.count_min_hold(counts));
        if (kind) session.explain_end(*kind, reason);
        return session.release(deadline, over);
      },
      [this](const Answers<Released>& some) {
        return with_all_of_ours(is_decided(some), has_answered(some));
      },
      {deadline, k_grace, true}, interrupt, interrupted);
  if (interrupted) return Released::interrupted;
  const auto released = judge_release(answers);
  if (!released) return no_quorum_of(names_, answers);
  ours_.assign(names_.size(), false);
  unheard_ = ours_;
  holding_ = joined_ = asked_ = false;
  return *released;
}

// There are no marks here (LockStore::accepts).
Result<Released> RedlockSession::complete(Instant deadline, Interrupt interrupt) {
  return release(deadline, interrupt);
}

Status RedlockSession::count_min_hold(bool counts) {
  min_hold_counts_ = counts;
  return {};
}

void RedlockSession::explain_end(EventKind kind, std::string reason) {
  end_kind_ = kind;
  end_reason_ = std::move(reason);
}

void RedlockSession::note_lost(const std::string& reason) {
  servers_.interrupt();
  const Instant until = BootClock::now() + k_note_time;
  bool interrupted = false;
  servers_.ask<bool>(
      [reason, settled = settled_fence()](redis::Session& session, std::size_t, Interrupt) -> Result<bool> {
        if (settled) session.hold_as(*settled, false);
        session.note_lost(reason);
        return true;
      },
      [this](const Answers<bool>& answers) { return with_all_of_ours(true, has_answered(answers)); },
      {until, k_note_time, true}, Interrupt{}, interrupted);
}

}  // namespace klock::redlock
