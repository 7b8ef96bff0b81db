// SPDX-License-Identifier: MIT
#include "store/redis/plain_session.hpp"

#include "store/redis/outcome.hpp"
#include "util/random.hpp"

#include <algorithm>

namespace klock::redis {
namespace {

constexpr auto k_poll = Milliseconds(200);
constexpr std::uint64_t k_poll_spread = 100;  // ms, so that waiters don't fall into step
constexpr Duration k_note_time = Milliseconds(300);
constexpr auto k_after = Milliseconds(3'600'000);  // as in scripts/common.lua
constexpr const char* k_fence_life = "86400000";
constexpr auto k_shortest_request = Milliseconds(60'000);
constexpr const char* k_index_life = "2592000000";

bool is_refused_type(const Reply& reply) {
  return reply.is_error() && reply.text.starts_with("WRONGTYPE");
}

std::int64_t to_number(const std::string& text) {
  return std::strtoll(text.c_str(), nullptr, 10);
}

}  // namespace

PlainSession::PlainSession(const Site& site, const std::string& prefix, const Claim& claim, Error no_scripts)
    : claim_(claim),
      no_scripts_(std::move(no_scripts)),
      keys_(claim_.lock.key, prefix),
      once_key_(claim_.once ? keys_.once_key(claim_.once->key) : std::string()),
      client_(site, keys_.key) {}

Error PlainSession::needs_scripts(const std::string& what) const {
  return {ErrorKind::refused, no_scripts_.what + ", which " + what + " needs", no_scripts_.hint};
}

Io<PlainSession::Seen> PlainSession::seen_in(const std::vector<Reply>& replies) const {
  enum { time, type, value, pttl, readers, slots, joined, entry, request, fence, queue, marker, marker_pttl };
  for (std::size_t i = 0; i < replies.size(); ++i) {
    // The clock may be forbidden, and what stands at the key may be somebody else's.
    const bool matters = i != time && !(i == value && is_refused_type(replies[i]));
    if (matters && replies[i].is_error()) return tl::unexpected<Fault>(fault_of(replies[i].text));
  }
  Seen seen;
  seen.now_us = wall_ms() * 1000;
  if (replies[time].items.size() == 2)
    seen.now_us = replies[time].number_at(0) * 1'000'000 + replies[time].number_at(1);
  const std::int64_t now_ms = seen.now_us / 1000;
  seen.type = replies[type].text;
  seen.is_taken = seen.type != "none";
  // Somebody may have deleted the mark; those whose lease has not ended are there none the less.
  for (const auto set : {readers, slots})
    if (replies[set].number_at(1) > now_ms) {
      seen.is_taken = true;
      seen.one = replies[set].text_at(0);
    }
  for (std::size_t i = 0; i + 1 < replies[joined].items.size(); i += 2)
    if (replies[joined].text_at(i).starts_with(claim_.token.value + ":"))
      seen.joined_until = std::max(seen.joined_until, replies[joined].number_at(i + 1));
  if (seen.joined_until <= now_ms) seen.joined_until = 0;
  if (replies[value].type == Reply::Type::string) seen.token = replies[value].text;
  seen.pttl = replies[pttl].integer;
  seen.entry = parse_hold_entry(replies[entry].text);
  seen.request = replies[request].text;
  seen.fence = replies[fence].text;
  seen.first_waiter = replies[queue].text_at(0);
  if (replies.size() > marker && replies[marker].type == Reply::Type::string)
    seen.marker = parse_marker(claim_.once->key, replies[marker].text, replies[marker_pttl].integer);
  return seen;
}

Io<PlainSession::Done> PlainSession::look_and_write(const Decide& decide, bool in_order, Instant deadline,
                                                    Interrupt interrupt) {
  const std::string id = claim_.token.id();
  Pipeline look;
  look.add({"TIME"});
  look.add({"TYPE", keys_.key});
  look.add({"GET", keys_.key});
  look.add({"PTTL", keys_.key});
  look.add({"ZRANGE", keys_.readers, "-1", "-1", "WITHSCORES"});
  look.add({"ZRANGE", keys_.slots, "-1", "-1", "WITHSCORES"});
  look.add({"ZRANGE", keys_.joined, "0", "-1", "WITHSCORES"});
  look.add({"HGET", keys_.holders, claim_.token.value});
  look.add({"HGET", keys_.requests, id});
  look.add({"GET", keys_.fence});
  look.add({"ZRANGE", keys_.queue, "0", "0"});
  std::vector<std::string_view> watched{keys_.key, keys_.fence, keys_.joined};
  if (claim_.once) {
    look.add({"GET", once_key_});
    look.add({"PTTL", once_key_});
    watched.push_back(once_key_);
  }
  Done done;
  std::optional<Fault> fault;
  auto answers = client_.transact(
      watched, look,
      [&](const std::vector<Reply>& replies) {
        auto seen = seen_in(replies);
        if (!seen) {
          fault = std::move(seen).error();
          return Pipeline();
        }
        fault.reset();
        done.seen = *std::move(seen);
        return decide(done.seen);
      },
      in_order, deadline, interrupt);
  if (!answers) return tl::unexpected<Fault>(std::move(answers).error());
  if (fault) return tl::unexpected<Fault>(*std::move(fault));
  done.answers = *std::move(answers);
  return done;
}

std::optional<Error> PlainSession::refusal() const {
  if (claim_.mode == Mode::shared) return needs_scripts("--shared");
  if (claim_.mode == Mode::slots) return needs_scripts("--slots");
  if (claim_.max_waiters) return needs_scripts("--max-waiters");
  if (claim_.wait_replicas > 0) return needs_scripts("--wait-replicas");
  return std::nullopt;
}

// Of a hold that begins. Whoever waits for it is not told of its end.
std::string PlainSession::new_entry(const Seen& seen, const std::string& fence) const {
  return hold_entry_text({seen.now_us / 1000, fence, mode_text(Mode::exclusive, 0), 0, entry_state(claim_),
                          details_json(claim_.lock, claim_.who, true)});
}

// Whoever may not use one of the commands that a release needs must learn it here, before anything runs: so
// all of them are here. SET comes first, which a full server refuses.
Pipeline PlainSession::writes_of_take(const Seen& seen, const std::string& fence) const {
  const Milliseconds ttl = whole(claim_.ttl);
  Pipeline out;
  if (is_mine(seen))
    out.add({"PEXPIRE", keys_.key, text(ttl)});
  else
    out.add({"SET", keys_.key, claim_.token.value, "NX", "PX", text(ttl)});
  out.add({"DEL", keys_.holders});
  out.add({"HDEL", keys_.requests, claim_.token.id()});
  out.add({"HDEL", keys_.waiters, claim_.token.value});
  out.add({"SET", keys_.fence, fence, "PX", k_fence_life});
  out.add({"HSET", keys_.holders, claim_.token.value, new_entry(seen, fence)});
  out.add({"PEXPIRE", keys_.holders, text(ttl + k_after)});
  return out;
}

Result<Attempt> PlainSession::attempt(bool, Instant deadline, Interrupt interrupt) {
  if (auto error = refusal()) return tl::unexpected(*std::move(error));
  tried_ = true;
  for (;;) {
    std::string fence;
    auto done = look_and_write(
        [&](const Seen& seen) {
          if (is_mine(seen) && seen.entry) {
            fence = seen.entry->fence;
            return writes_of_renewal(seen);
          }
          if ((seen.is_taken && !is_mine(seen)) || seen.marker) return Pipeline();
          fence = std::to_string(std::max(to_number(seen.fence) + 1, seen.now_us));
          return writes_of_take(seen, fence);
        },
        false, deadline, interrupt);
    if (!done) {
      if (Error& error = done.error().error; done.error().cause == Cause::no_permission)
        error.what = no_scripts_.what + ", and " + error.what;
      // Something in the midst of the transaction may have been refused.
      if (done.error().cause != Cause::interrupted)
        withdraw(std::min(deadline, BootClock::now() + k_note_time));
      return outcome_of<Attempt>(std::move(done).error(), Interrupted{});
    }
    const Seen& seen = done->seen;
    if (done->answers.empty()) {
      if (seen.marker) return Attempt(Completed{*seen.marker});
      return busy(seen, deadline, interrupt);
    }
    // Before Redis 6.0.9 the end of a lease is no change to those who watch.
    const Reply& first = done->answers[0];
    const bool is_held = first.type == Reply::Type::integer ? first.integer == 1 : first.text == "OK";
    const Instant until = lease_deadline(client_.sent_at(), claim_.ttl);
    if (!is_held || until <= BootClock::now() + claim_.ttl / 2) {
      if (BootClock::now() >= deadline) return tl::unexpected(timeout_fault().value().error);
      continue;
    }
    fence_ = fence;
    note_in_index(whole(claim_.ttl), deadline, interrupt);
    return Attempt(Lease{BootClock::now(), until, static_cast<std::uint64_t>(to_number(fence))});
  }
}

// The holder's details take another look.
std::optional<Holder> PlainSession::holder(const Seen& seen, Instant deadline, Interrupt interrupt) {
  const std::string& token = seen.one.empty() ? seen.token : seen.one;
  Pipeline look;
  look.add({"HGET", keys_.holders, token});
  look.add({"HGET", keys_.waiters, token});
  const auto entries = client_.commands(look, deadline, interrupt);
  if (!entries) return std::nullopt;
  Sighting sighting;
  sighting.key = keys_.key;
  sighting.type = seen.type;
  sighting.value = token;
  sighting.pttl = seen.pttl;
  sighting.hold_entry = (*entries)[0].text;
  sighting.wait_entry = (*entries)[1].text;
  sighting.now_ms = seen.now_us / 1000;
  return occupant(sighting).holder;
}

Result<Attempt> PlainSession::busy(const Seen& seen, Instant deadline, Interrupt interrupt) {
  for (const Token& ancestor : claim_.ancestors)
    if (seen.token == ancestor.value)
      return tl::unexpected(needs_scripts("a run within a run of the same lock"));
  Busy result;
  result.holder = holder(seen, deadline, interrupt);
  result.cooldown = result.holder && result.holder->cooldown;
  result.why_polling = no_scripts_.what;
  Milliseconds wait = k_poll + Milliseconds(random_below(k_poll_spread));
  if (seen.pttl >= 0) wait = std::min(wait, Milliseconds(seen.pttl + 2));
  result.look_again = BootClock::now() + wait;
  return Attempt(std::move(result));
}

Result<Wake> PlainSession::await_news(Instant until, Interrupt interrupt) {
  return wait_ready(-1, 0, until, interrupt) == Ready::interrupted ? Wake::interrupted : Wake::timeout;
}

// The lease never ends sooner by it than anybody was told, see scripts/renew.lua.
Milliseconds PlainSession::renewed_life(const Seen& seen) const {
  const bool relied_on = !seen.entry || seen.entry->state != k_detached;
  return relied_on ? std::max(whole(claim_.ttl), Milliseconds(seen.pttl)) : whole(claim_.ttl);
}

Pipeline PlainSession::writes_of_renewal(const Seen& seen) const {
  const Milliseconds life = renewed_life(seen);
  Pipeline out;
  out.add({"PEXPIRE", keys_.key, text(life)});
  if (!seen.entry)
    out.add({"HSET", keys_.holders, claim_.token.value, new_entry(seen, fence_.empty() ? "0" : fence_)});
  out.add({"PEXPIRE", keys_.holders, text(life + k_after)});
  return out;
}

Result<Renewal> PlainSession::renew(Instant deadline, Interrupt interrupt) {
  return renew_or_confirm(true, deadline, interrupt);
}

Result<Renewal> PlainSession::confirm(Instant deadline, Interrupt interrupt) {
  return renew_or_confirm(false, deadline, interrupt);
}

Result<Renewal> PlainSession::renew_or_confirm(bool extend, Instant deadline, Interrupt interrupt) {
  bool reclaims = false;
  auto done = look_and_write(
      [&](const Seen& seen) {
        reclaims = false;
        if (is_mine(seen)) return extend && !is_over(seen) ? writes_of_renewal(seen) : Pipeline();
        // The fence tells whether somebody was in between; what was removed on purpose stays removed.
        reclaims = extend && claim_.reclaim && !seen.is_taken && seen.request.empty() && !fence_.empty() &&
                   (seen.fence.empty() || seen.fence == fence_);
        return reclaims ? writes_of_take(seen, fence_) : Pipeline();
      },
      false, deadline, interrupt);
  if (!done) return outcome_of<Renewal>(std::move(done).error(), Interrupted{});
  const Seen& seen = done->seen;
  const std::optional<Reply> first = done->answers.empty() ? std::optional<Reply>() : done->answers[0];
  if (reclaims && first && first->text == "OK")
    return Renewal(Renewed{lease_deadline(client_.sent_at(), claim_.ttl), std::nullopt, true});
  if (!is_mine(seen) || is_over(seen) || (extend && (!first || first->integer != 1)))
    return loss(seen, deadline, interrupt);
  const Milliseconds life = extend ? renewed_life(seen) : Milliseconds(seen.pttl);
  Renewed renewed{lease_deadline(client_.sent_at(), life)};
  renewed.stop = stop_request(seen);
  if (extend) note_in_index(life, deadline, interrupt);
  return Renewal(std::move(renewed));
}

std::optional<StopRequest> PlainSession::stop_request(const Seen& seen) const {
  auto stored = parse_request(seen.request);
  if (!stored || stored->id != claim_.token.id()) return std::nullopt;
  return std::move(stored->request);
}

Result<Renewal> PlainSession::loss(const Seen& seen, Instant deadline, Interrupt interrupt) {
  if (!seen.is_taken || is_mine(seen)) return Renewal(Gone{stop_request(seen)});
  return Renewal(NotMine{holder(seen, deadline, interrupt), stop_request(seen)});
}

Pipeline PlainSession::writes_of_release(const Seen& seen) const {
  Pipeline out;
  const std::string id = claim_.token.id();
  const auto leave_mark = [&] {
    if (!marker_.empty()) out.add({"SET", once_key_, marker_, "PX", text(whole(claim_.once->keep))});
  };
  const auto ask = [&] {
    const std::string request = R"({"released":true,"id":")" + id + "\"}";
    out.add({"HSET", keys_.requests, id, request});
    out.add({"PEXPIRE", keys_.requests, text(std::max(k_shortest_request, Milliseconds(seen.pttl)))});
  };
  // The name stays taken.
  const auto stay = [&](const char* state, Milliseconds life) {
    HoldEntry entry = *seen.entry;
    entry.state = state;
    if (min_hold_counts_) entry.min_hold_ms = whole(claim_.min_hold).count();
    out.add({"PEXPIRE", keys_.key, text(life)});
    out.add({"HSET", keys_.holders, claim_.token.value, hold_entry_text(entry)});
    out.add({"PEXPIRE", keys_.holders, text(life + k_after)});
    leave_mark();
  };
  if (!is_mine(seen)) return out;
  // A run stops its command first.
  if (is_of_another() && seen.entry && seen.entry->state == k_run) {
    ask();
    return out;
  }
  const Milliseconds now(seen.now_us / 1000);
  // It stays for those who have joined it; they renew it from now on, and the last one ends it.
  if (seen.entry && seen.joined_until > 0) {
    stay(k_left, Milliseconds(seen.joined_until) - now);
    if (is_of_another()) ask();
    return out;
  }
  if (seen.entry && min_hold_counts_ && seen.request.empty()) {
    const Milliseconds rest = Milliseconds(seen.entry->since_ms) + whole(claim_.min_hold) - now;
    if (rest > Milliseconds(0)) {
      stay(k_cooldown, rest);
      return out;
    }
  }
  out.add({"DEL", keys_.key});
  out.add({"HDEL", keys_.holders, claim_.token.value});
  out.add({"HDEL", keys_.requests, id});
  leave_mark();
  // A renewal of ours that is still on its way must not take the lock back.
  if (claim_.reclaim && !seen.fence.empty())
    out.add({"SET", keys_.fence, std::to_string(to_number(seen.fence) + 1), "PX", k_fence_life});
  if (is_of_another()) ask();
  return out;
}

Io<Released> PlainSession::release_once(Instant deadline, Interrupt interrupt) {
  const bool retry = std::exchange(release_sent_, true);
  bool over = false;
  KLOCK_TRY(done, look_and_write(
                      [&](const Seen& seen) {
                        over = is_over(seen);
                        return over ? Pipeline() : writes_of_release(seen);
                      },
                      true, deadline, interrupt));
  const Seen& seen = done.seen;
  if (is_of_another() && over) return Released::gone;
  if (is_of_another() && is_mine(seen)) publish(claim_.token.value, "stop", deadline);
  if (is_of_another() && is_mine(seen) && seen.entry && seen.entry->state == k_run) {
    const auto stands = [&]() -> Io<bool> {
      KLOCK_TRY(now, look_and_write([](const Seen&) { return Pipeline(); }, false, deadline, interrupt));
      return is_mine(now.seen);
    };
    return await_end(stands, deadline, interrupt);
  }
  if (is_mine(seen) && !over && seen.joined_until == 0 && !seen.first_waiter.empty())
    publish(seen.first_waiter, "look", deadline);
  // Of a release whose answer was lost only this much can be known: the hold is over.
  if (retry || is_mine(seen)) return Released::done;
  return seen.is_taken ? Released::not_mine : Released::gone;
}

Result<Released> PlainSession::release(Instant deadline, Interrupt interrupt) {
  auto released = release_patiently([&] { return release_once(deadline, interrupt); }, deadline, interrupt);
  if (released && *released != Released::interrupted) release_sent_ = false;
  return released;
}

Result<Released> PlainSession::complete(Instant deadline, Interrupt interrupt) {
  if (claim_.once) marker_ = marker_json(claim_.who);
  auto released = release(deadline, interrupt);
  marker_.clear();
  return released;
}

Status PlainSession::count_min_hold(bool counts) {
  min_hold_counts_ = counts;
  return {};
}

void PlainSession::withdraw(Instant deadline) {
  static_cast<void>(release_once(deadline, Interrupt{}));
  release_sent_ = false;
}

void PlainSession::note_lost(const std::string&) {
  withdraw(BootClock::now() + k_note_time);
}

// Best effort: `klock list` looks there. On a Cluster it lies elsewhere.
void PlainSession::note_in_index(Milliseconds life, Instant deadline, Interrupt interrupt) {
  if (client_.splits_keys()) return;
  const std::string ends = text(Milliseconds(wall_ms()) + life);
  const std::string past = text(Milliseconds(wall_ms() - 1));
  Pipeline out;
  out.add({"ZADD", keys_.index, ends, keys_.key});
  out.add({"ZREMRANGEBYSCORE", keys_.index, "-inf", past});
  out.add({"PEXPIRE", keys_.index, k_index_life});
  static_cast<void>(client_.commands(out, std::min(deadline, BootClock::now() + k_note_time), interrupt));
}

// Best effort too: to whoever may be listening there.
void PlainSession::publish(const std::string& token, const char* message, Instant deadline) {
  const std::string channel = keys_.channel(Token{token}.id());
  static_cast<void>(client_.command({"PUBLISH", channel, message},
                                    std::min(deadline, BootClock::now() + k_note_time), Interrupt{}));
}

}  // namespace klock::redis
