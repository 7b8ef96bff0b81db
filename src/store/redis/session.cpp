// SPDX-License-Identifier: MIT
#include "store/redis/session.hpp"

#include "store/redis/outcome.hpp"
#include "store/redis/scripts.hpp"

#include <algorithm>
#include <charconv>

namespace klock::redis {
namespace {

constexpr auto k_slack = Milliseconds(5);  // past an expiry, before looking
constexpr auto k_step = Milliseconds(20);  // between the waiters' looks
constexpr auto k_longest_step = Milliseconds(500);
constexpr auto k_foreign_poll = Milliseconds(100);  // a foreign release tells nobody
constexpr auto k_own_poll = Milliseconds(250);      // where we may not subscribe
constexpr auto k_quiet_start = Milliseconds(1000);  // short holds are not worth a subscription
constexpr auto k_longest_sleep = Milliseconds(15000);
constexpr auto k_shortest_life = Milliseconds(30000);  // a waiter's entry must outlive a reconnection
constexpr std::string_view k_confirm_only = "0";
constexpr auto k_shortest_watch = Milliseconds(500);
constexpr auto k_undo_time = Milliseconds(500);
constexpr auto k_note_time = Milliseconds(300);
constexpr auto k_replica_time = Milliseconds(1000);  // Claim::wait_replicas
constexpr auto k_first_pause = Milliseconds(20);
constexpr auto k_longest_pause = Milliseconds(500);

Milliseconds waiter_life(Duration ttl) {
  return std::max<Milliseconds>(k_shortest_life, whole(ttl)) + whole(ttl) + Milliseconds(1000);
}

}  // namespace

Session::Session(const Site& site, const std::string& prefix, Claim claim)
    : claim_(std::move(claim)),
      keys_(claim_.lock.key, prefix, group_of(claim_.lock.name, claim_.group)),
      once_key_(claim_.once ? keys_.once_key(claim_.once->key) : std::string()),
      mode_(mode_text(claim_.mode, claim_.slots)),
      details_(details_json(claim_.lock, claim_.who)),
      ttl_(text(whole(claim_.ttl))),
      waiter_life_(text(waiter_life(claim_.ttl))),
      max_waiters_(claim_.max_waiters ? std::to_string(*claim_.max_waiters) : std::string()),
      token_(claim_.token.value),
      hold_mode_(mode_),
      keep_(claim_.once ? text(whole(claim_.once->keep)) : "0"),
      client_(site, keys_.key, keys_.channel(claim_.token.id())) {}

ScriptCall Session::acquire_call(How how) {
  constexpr std::array<const char*, 4> k_words{"enqueue", "once", "claim", "vote"};
  const char* word = k_words.at(static_cast<std::size_t>(how));
  ScriptCall call{scripts::k_acquire,
                  keys_.own(once_key_),
                  keys_.common(),
                  {claim_.token.value, ttl_, word, number_, client_.can_listen() ? "0" : "1", mode_,
                   waiter_life_, details_, max_waiters_, entry_state(claim_)},
                  how == How::enqueue};
  for (const Token& ancestor : claim_.ancestors) call.arguments.push_back(ancestor.value);
  tried_ = true;
  return call;
}

void Session::begin(bool enqueue, Instant deadline, Interrupt interrupt) {
  begun_ = enqueue ? How::enqueue : How::once;
  client_.begin(acquire_call(*begun_), deadline, interrupt);
}

Result<Attempt> Session::attempt(bool enqueue, Instant deadline, Interrupt interrupt) {
  if (std::exchange(granted_, false)) {
    auto claimed = take(How::claim, deadline, interrupt);
    // A grant that was claimed too late: our number keeps our place.
    if (!claimed || !std::holds_alternative<Busy>(*claimed)) return claimed;
  }
  return take(enqueue ? How::enqueue : How::once, deadline, interrupt);
}

Result<Attempt> Session::take(How how, Instant deadline, Interrupt interrupt) {
  if (begun_ && *begun_ != how) client_.drop_begun();
  begun_.reset();
  look_at_ = k_never;
  for (;;) {
    const bool could_listen = client_.can_listen();
    Io<Reply> answer = client_.call(acquire_call(how), deadline, interrupt);
    if (!answer) {
      // What was sent to a server that turned out to be the wrong one may have run there.
      if (answer.error().cause == Cause::login) withdraw(std::min(deadline, BootClock::now() + k_undo_time));
      return outcome_of<Attempt>(std::move(answer).error(), Interrupted{});
    }
    KLOCK_TRY(attempt, hear(*answer, how));
    if (claim_.wait_replicas > 0 && attempt && std::holds_alternative<Lease>(*attempt) && !has_joined())
      if (auto enough = check_replicas(deadline, interrupt); !enough)
        return outcome_of<Attempt>(std::move(enough).error(), Interrupted{});
    // The entry says that we listen, and we found out that we may not: say so.
    const bool say_so = answer->text_at(0) == "busy" && how == How::enqueue && could_listen;
    if (attempt && !(say_so && !client_.can_listen())) return *std::move(attempt);
    if (!attempt && BootClock::now() >= deadline) return tl::unexpected(timeout_fault().value().error);
  }
}

// WAIT counts what this connection has written: the hold, or its renewal where it was ours already. Too few:
// what we have is given back.
Io<void> Session::check_replicas(Instant deadline, Interrupt interrupt) {
  const Milliseconds limit = std::min(k_replica_time, whole(claim_.ttl) / 3);
  const Instant until = std::max(deadline, BootClock::now() + limit + k_undo_time);
  auto have = client_.await_replicas(claim_.wait_replicas, limit, until, interrupt);
  if (have && *have >= static_cast<std::int64_t>(claim_.wait_replicas)) return {};
  explain_end(EventKind::gave_up, "too few replicas have it");
  withdraw(BootClock::now() + k_undo_time);
  if (!have) return tl::unexpected<Fault>(std::move(have).error());
  return fault(Cause::final, ErrorKind::unsafe,
               "only " + std::to_string(*have) + " of " + std::to_string(claim_.wait_replicas) +
                   " replicas have the lock; it is released again",
               "are they running, and in step? --wait-replicas asks for them");
}

// nullopt: the answer took so long that what is left of the lease is nothing to start a command with. Asking
// again renews it.
Result<std::optional<Attempt>> Session::hear(const Reply& answer, How how) {
  const std::string_view word = answer.text_at(0);
  if (word == "held" || word == "joined") {
    const bool own = word == "held";
    const Lease lease = own ? held(answer) : joined(answer);
    if (lease.deadline <= BootClock::now() + (own ? claim_.ttl / 2 : Duration::zero())) return std::nullopt;
    return Attempt(lease);
  }
  if (word == "busy") return Attempt(busy(answer, how));
  if (word == "completed")
    return Attempt(Completed{parse_marker(claim_.once->key, answer.text_at(1), answer.number_at(2))});
  if (word == "upgrade")
    return failure(ErrorKind::config,
                   "it is held as shared by a run around this one, which wants it exclusively",
                   "take it exclusively in the first place");
  if (word == "slots")
    return failure(ErrorKind::config,
                   "it is held with " + std::to_string(answer.number_at(1)) + " slots, not " +
                       std::to_string(claim_.slots),
                   "every user of a lock must give the same --slots");
  return failure(ErrorKind::protocol, "the server gave an answer that makes no sense");
}

Lease Session::held(const Reply& answer) {
  fence_ = answer.text_at(1);
  holding_ = true;
  return Lease{BootClock::now(), lease_deadline(client_.sent_at(), claim_.ttl),
               static_cast<std::uint64_t>(answer.number_at(1))};
}

Lease Session::joined(const Reply& answer) {
  fence_ = answer.text_at(1);
  token_ = answer.text_at(3);
  hold_mode_ = answer.text_at(4);
  holding_ = true;
  return Lease{BootClock::now(), lease_deadline(client_.sent_at(), Milliseconds(answer.number_at(2))),
               static_cast<std::uint64_t>(answer.number_at(1)), true};
}

Busy Session::busy(const Reply& answer, How how) {
  const std::int64_t pttl = answer.number_at(3);
  Occupant holder = parse_occupant(keys_.key, answer.at(4), pttl);
  Busy result;
  result.cooldown = holder.holder.cooldown;
  result.holder = std::move(holder.holder);
  result.ahead = static_cast<std::size_t>(std::max<std::int64_t>(answer.number_at(2), 0));
  result.full = answer.text_at(5) == "full";
  if (how == How::enqueue && !result.full) number_ = answer.text_at(1);
  result.look_again = when_to_look(result, holder.mute, pttl);
  if (!client_.can_listen()) result.why_polling = "the server does not let this user subscribe";
  return result;
}

Instant Session::when_to_look(const Busy& busy, bool is_mute, std::int64_t pttl) const {
  const Instant now = BootClock::now();
  if (pttl == 0) return now + Milliseconds(2);
  const bool head = busy.ahead == 0;
  // Our own entry must be refreshed long before it expires.
  Milliseconds wait = std::max<Milliseconds>(whole(claim_.ttl), k_longest_sleep);
  if (pttl > 0) {
    const auto step =
        head ? k_slack
             : std::min<Milliseconds>(k_step * static_cast<int>(std::min<std::size_t>(busy.ahead, 100) + 1),
                                      k_longest_step);
    wait = std::min(wait, Milliseconds(std::min<std::int64_t>(pttl, 86'400'000)) + step);
  }
  if (client_.may_change()) wait = std::min(wait, std::max(whole(claim_.ttl) / 3, k_shortest_watch));
  if (head && busy.holder->foreign) wait = std::min<Milliseconds>(wait, k_foreign_poll);
  if (!client_.can_listen() || is_mute)
    wait =
        std::min<Milliseconds>(wait, k_own_poll * static_cast<int>(std::min<std::size_t>(busy.ahead, 2) + 1));
  return now + wait;
}

Result<Wake> Session::await_news(Instant until, Interrupt interrupt) {
  if (holding_) return await_as_holder(until, interrupt);
  if (granted_) return Wake::news;
  return listen(until, interrupt);
}

Result<Wake> Session::await_as_holder(Instant until, Interrupt interrupt) {
  if (client_.connected() && !client_.subscribed() && client_.can_listen()) {
    // A script may release at any time: whoever keeps its hold has to hear of it.
    const Duration quiet_start = claim_.for_script ? Duration::zero() : Duration(k_quiet_start);
    const Instant quiet = std::min(until, BootClock::now() + quiet_start);
    KLOCK_TRY(wake, watch_connection(quiet, interrupt));
    if (wake != Wake::timeout || quiet == until) return wake;
    if (auto sent = client_.subscribe(until, interrupt); !sent)
      return outcome_of<Wake>(std::move(sent).error(), Wake::interrupted);
  }
  return listen(until, interrupt);
}

// Nothing to hear, but the end of the connection is noticed.
Result<Wake> Session::watch_connection(Instant until, Interrupt interrupt) {
  if (!client_.connected()) {
    const bool interrupted = wait_ready(-1, 0, until, interrupt) == Ready::interrupted;
    return interrupted ? Wake::interrupted : Wake::timeout;
  }
  auto message = client_.next_message(until, interrupt);
  if (message) return Wake::news;
  if (message.error().cause == Cause::timeout) return Wake::timeout;
  return outcome_of<Wake>(std::move(message).error(), Wake::interrupted);
}

Result<Wake> Session::listen(Instant until, Interrupt interrupt) {
  for (;;) {
    const Instant bound = std::min(until, look_at_);
    if (!client_.listening()) {
      KLOCK_TRY(wake, watch_connection(bound, interrupt));
      return wake == Wake::timeout && bound < until ? Wake::news : wake;
    }
    auto message = client_.next_message(bound, interrupt);
    if (!message) {
      const Cause cause = message.error().cause;
      if (cause == Cause::timeout) return bound < until ? Wake::news : Wake::timeout;
      if (cause == Cause::no_permission) continue;
      return outcome_of<Wake>(std::move(message).error(), Wake::interrupted);
    }
    const std::string_view words = *message;
    if (words.starts_with("next ")) {
      std::int64_t wait = 0;
      std::from_chars(words.data() + 5, words.data() + words.size(), wait);
      wait = std::clamp<std::int64_t>(wait, 0, 86'400'000);
      look_at_ = std::min<Instant>(look_at_, BootClock::now() + Milliseconds(wait) + k_slack);
      continue;
    }
    granted_ = !holding_ && words == "grant";
    return Wake::news;
  }
}

// The hold that we deal with: see scripts/release.lua.
const char* Session::whose() const {
  return !tried_ && claim_.by_token ? "other" : "own";
}

std::string_view Session::reclaim() const {
  if (one_of_several_ && !has_joined()) return adds_ ? "3" : "2";
  return claim_.reclaim ? "1" : "0";
}

ScriptCall Session::renew_call(std::string_view ttl) {
  return {scripts::k_renew,
          keys_.own(),
          keys_.common(),
          {token_, ttl, fence_, reclaim(), hold_mode_, details_,
           has_joined() ? claim_.token.value : std::string_view(), entry_state(claim_), whose()},
          client_.subscribed(),
          false};
}

Result<Renewal> Session::renew(Instant deadline, Interrupt interrupt) {
  return confirm_or_renew(ttl_, deadline, interrupt);
}

Result<Renewal> Session::confirm(Instant deadline, Interrupt interrupt) {
  return confirm_or_renew(k_confirm_only, deadline, interrupt);
}

Result<Renewal> Session::confirm_or_renew(std::string_view ttl, Instant deadline, Interrupt interrupt) {
  Io<Reply> answer = client_.call(renew_call(ttl), deadline, interrupt);
  // Then the lock's key alone tells that it is ours; else only all of them together tell more.
  for (Duration pause = k_first_pause; !answer && answer.error().cause == Cause::split;) {
    const ScriptCall hold_on{scripts::k_hold_on, {keys_.key}, {}, {token_, ttl}, false, false};
    answer = client_.call(hold_on, deadline, interrupt);
    if (answer || answer.error().cause != Cause::split || BootClock::now() + pause >= deadline) break;
    if (wait_ready(-1, 0, BootClock::now() + pause, interrupt) == Ready::interrupted)
      return Renewal(Interrupted{});
    pause = std::min<Duration>(pause * 2, k_longest_pause);
    answer = client_.call(renew_call(ttl), deadline, interrupt);
  }
  if (!answer) return outcome_of<Renewal>(std::move(answer).error(), Interrupted{});
  auto outcome = renewal(*answer);
  const bool confirmed = outcome && std::holds_alternative<Renewed>(*outcome);
  if (outcome && !confirmed && ttl != k_confirm_only) loss_told_ = true;
  return outcome;
}

Result<Renewal> Session::renewal(const Reply& answer) {
  const std::string_view word = answer.text_at(0);
  std::optional<StopRequest> request;
  const bool joined = answer.text_at(3) == "joined";  // then the hold has another id than our token
  if (auto stored = parse_request(answer.text_at(1)); stored && (joined || stored->id == Token{token_}.id()))
    request = std::move(stored->request);
  if (word == "renewed" || word == "reclaimed")
    return Renewal(Renewed{lease_deadline(client_.sent_at(), Milliseconds(answer.number_at(2))),
                           std::move(request), word == "reclaimed", joined});
  if (word == "gone") return Renewal(Gone{std::move(request)});
  if (word == "not_mine")
    return Renewal(
        NotMine{parse_occupant(keys_.key, answer.at(3), answer.number_at(2)).holder, std::move(request)});
  return failure(ErrorKind::protocol, "the server gave an answer that makes no sense");
}

Io<Released> Session::release_once(Instant deadline, Interrupt interrupt) {
  const bool retry = std::exchange(release_sent_, true);
  const ScriptCall call{
      scripts::k_release,
      keys_.own(once_key_),
      keys_.common(),
      {claim_.token.value, silent_ ? "0" : reclaim(), marker_, keep_, whose(), min_hold_,
       silent_ ? std::string_view() : event_name(end_kind_), end_reason_, fence_, mode_, details_},
      false};
  KLOCK_TRY(answer, client_.call_in_order(call, deadline, interrupt));
  if (answer.text_at(0) == "asked") {
    const auto stands = [&]() -> Io<bool> {
      KLOCK_TRY(state, client_.call(renew_call(k_confirm_only), deadline, interrupt));
      return state.text_at(0) == "renewed";
    };
    return await_end(stands, deadline, interrupt);
  }
  // Of a release whose answer was lost only this much can be known: the hold is over.
  if (retry || client_.sent_again() || answer.text_at(0) == "done") return Released::done;
  return answer.text_at(0) == "gone" ? Released::gone : Released::not_mine;
}

Result<Released> Session::release(Instant deadline, Interrupt interrupt) {
  holding_ = granted_ = false;
  auto released = release_patiently([&] { return release_once(deadline, interrupt); }, deadline, interrupt);
  if (released && *released != Released::interrupted) release_sent_ = false;
  return released;
}

Result<Released> Session::complete(Instant deadline, Interrupt interrupt) {
  if (claim_.once) marker_ = marker_json(claim_.who);
  auto released = release(deadline, interrupt);
  marker_.clear();
  return released;
}

Status Session::count_min_hold(bool counts) {
  min_hold_ = counts ? text(whole(claim_.min_hold)) : "0";
  return {};
}

void Session::explain_end(EventKind kind, std::string reason) {
  end_kind_ = kind;
  end_reason_ = std::move(reason);
}

void Session::note_lost(const std::string& reason) {
  if ((loss_told_ && !one_of_several_) || has_joined()) return;  // of a joined hold its holder tells
  explain_end(EventKind::lost, reason);
  withdraw(BootClock::now() + k_note_time);
}

void Session::withdraw(Instant deadline) {
  holding_ = granted_ = false;
  static_cast<void>(release_once(deadline, Interrupt{}));
  release_sent_ = false;
}

}  // namespace klock::redis
