// SPDX-License-Identifier: MIT
#include "store/redis/lock_reader.hpp"

#include "store/redis/cluster.hpp"
#include "store/redis/digest.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/record.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>

namespace klock::redis {
namespace {

// A lock that changes hands between two commands is read again.
constexpr int k_tries = 5;
constexpr Duration k_pause = std::chrono::milliseconds(50);
constexpr std::string_view k_longest_value = "4095";  // the last byte that is read; as in common.lua

// A hash as HGETALL gives it; what is none is empty.
using Entries = std::unordered_map<std::string_view, std::string_view>;

Entries entries_of(const Reply& reply) {
  Entries entries;
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2)
    entries[reply.text_at(i)] = reply.text_at(i + 1);
  return entries;
}

// Nothing there is "", which no entry can be read from.
std::string_view find(const Entries& entries, std::string_view token) {
  const auto found = entries.find(token);
  return found == entries.end() ? std::string_view() : found->second;
}

// Of several one that runs makes it held.
void take_occupant(LockState& state, Occupant&& occupant) {
  if (state.occupancy != Occupancy::held)
    state.occupancy = occupant.holder.cooldown ? Occupancy::cooldown : Occupancy::held;
  state.mode = occupant.mode;
  if (occupant.slots != 0) state.slots = occupant.slots;
  if (state.lock.name.empty()) state.lock.name = std::move(occupant.name);
  state.holders.push_back(std::move(occupant.holder));
}

std::int64_t milliseconds_of(const Reply& time) {
  return time.items.size() == 2 ? time.number_at(0) * 1000 + time.number_at(1) / 1000 : wall_ms();
}

// Who has this token, or what else the string is.
Occupant occupant_of(std::string_view key, std::string_view token, std::int64_t size, std::int64_t pttl,
                     const Entries& holders, const Entries& waiters, std::int64_t now_ms) {
  const std::string digest = digest_of("string", std::to_string(size) + ":" + std::string(token));
  return occupant(
      {key, "string", token, size, digest, {}, pttl, find(holders, token), find(waiters, token), now_ms});
}

// Of a hash its fields, of a sorted set its members, as far as they were asked for.
std::vector<std::string_view> members_of(const Reply& fields, const Reply& members) {
  std::vector<std::string_view> texts;
  const std::vector<Reply>& pairs = fields.at(1).items;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) texts.emplace_back(pairs[i].text);
  for (const Reply& member : members.items) texts.emplace_back(member.text);
  return texts;
}

bool may_have_moved(Cause cause) {
  return cause == Cause::moved || cause == Cause::ask || cause == Cause::closed ||
         cause == Cause::no_contact || cause == Cause::not_master;
}

// The answers to one lock's part of the first round.
enum { a_value, a_size, a_pttl, a_holders, a_queue, a_waiters, a_readers, a_slots, a_value_again, k_answers };
// To the closer look at what is no string. Only the size command for its type has an answer.
constexpr std::string_view k_sizes[] = {"HLEN", "LLEN", "SCARD", "ZCARD", "XLEN"};
enum { b_type, b_dump, b_fields, b_members, b_sizes };

}  // namespace

struct LockReader::Look {
  Look(LockName lock, std::string_view prefix) : keys(lock.key, prefix) { state.lock = std::move(lock); }

  using Question = std::vector<std::string_view>;
  std::vector<Question> questions() const;
  void hear(const Reply* answers, std::int64_t now_ms);
  void ask_closer(Pipeline& out) const;
  const Reply* hear_closer(const Reply* answers);

  const LockKeys keys;
  LockState state;
  std::optional<Fault> fault;
  bool settled = false;
  bool other_type = false;  // something else than a string stands there
  std::int64_t pttl = 0;
  struct Listener {
    std::size_t waiter;  // in state.waiters
    std::string channel;
  };
  std::vector<Listener> listeners;  // waiters who count only if they have a connection

 private:
  void hear_several(const Reply& members, const Entries& holders, const Entries& waiters,
                    std::int64_t now_ms);
  void hear_queue(const Reply& queue, const Entries& waiters, std::int64_t now_ms);
};

// Of the first round, in the order of the answers.
std::vector<LockReader::Look::Question> LockReader::Look::questions() const {
  return {{"GETRANGE", keys.key, "0", k_longest_value},
          {"STRLEN", keys.key},
          {"PTTL", keys.key},
          {"HGETALL", keys.holders},
          {"ZRANGE", keys.queue, "0", "999"},
          {"HGETALL", keys.waiters},
          {"ZRANGE", keys.readers, "0", "999", "WITHSCORES"},
          {"ZRANGE", keys.slots, "0", "999", "WITHSCORES"},
          {"GETRANGE", keys.key, "0", k_longest_value}};
}

void LockReader::Look::hear(const Reply* answers, std::int64_t now_ms) {
  const LockName lock = state.lock;
  fault.reset();
  state = LockState{};
  state.lock = lock;
  listeners.clear();
  other_type = answers[a_value].text.starts_with("WRONGTYPE");
  for (const Reply* answer = answers; answer != answers + k_answers; ++answer) {
    // A key of another type is nobody's entry.
    if (!answer->is_error() || answer->text.starts_with("WRONGTYPE")) continue;
    fault = fault_of(answer->text);
    return;
  }
  settled = answers[a_value].text == answers[a_value_again].text;
  pttl = answers[a_pttl].integer;
  const Entries holders = entries_of(answers[a_holders]);
  const Entries waiters = entries_of(answers[a_waiters]);
  constexpr std::int64_t k_no_key = -2;
  const bool nothing = pttl == k_no_key;
  if (!other_type && (nothing || answers[a_value].text == k_mark)) {
    hear_several(answers[a_readers], holders, waiters, now_ms);
    hear_several(answers[a_slots], holders, waiters, now_ms);
  }
  if (!other_type && !nothing && state.holders.empty())
    take_occupant(state, occupant_of(keys.key, answers[a_value].text, answers[a_size].integer, pttl, holders,
                                     waiters, now_ms));
  hear_queue(answers[a_queue], waiters, now_ms);
}

// Members with the time when their lease ends.
void LockReader::Look::hear_several(const Reply& members, const Entries& holders, const Entries& waiters,
                                    std::int64_t now_ms) {
  for (std::size_t i = 0; i + 1 < members.items.size(); i += 2) {
    const std::string& token = members.items[i].text;
    const std::int64_t left = members.number_at(i + 1) - now_ms;
    if (left > 0)
      take_occupant(state, occupant_of(keys.key, token, std::ssize(token), left, holders, waiters, now_ms));
  }
}

void LockReader::Look::hear_queue(const Reply& queue, const Entries& waiters, std::int64_t now_ms) {
  for (const Reply& token : queue.items) {
    auto entry = parse_wait_entry(find(waiters, token.text));
    if (!entry || entry->alive_until_ms <= now_ms) continue;
    if (!entry->polls) listeners.push_back({state.waiters.size(), keys.channel(Token{token.text}.id())});
    if (state.lock.name.empty()) state.lock.name = std::move(entry->details.name);
    state.waiters.push_back({std::move(entry->details.who), entry->mode,
                             Milliseconds(std::max<std::int64_t>(now_ms - entry->since_ms, 0))});
  }
}

void LockReader::Look::ask_closer(Pipeline& out) const {
  if (other_type) {
    out.add({"TYPE", keys.key});
    out.add({"DUMP", keys.key});
    out.add({"HSCAN", keys.key, "0", "COUNT", "10"});
    out.add({"ZRANGE", keys.key, "0", "9"});
    for (const std::string_view size : k_sizes) out.add({size, keys.key});
  }
  if (listeners.empty()) return;
  std::vector<std::string_view> words{"PUBSUB", "NUMSUB"};
  for (const Listener& listener : listeners) words.push_back(listener.channel);
  out.add(words);
}

// Returns where the next lock's answers begin.
const Reply* LockReader::Look::hear_closer(const Reply* answers) {
  if (other_type) {
    const std::string& type = answers[b_type].text;
    std::int64_t size = -1;
    for (std::size_t i = 0; i < std::size(k_sizes); ++i)
      if (!answers[b_sizes + i].is_error() && answers[b_sizes + i].integer > 0)
        size = answers[b_sizes + i].integer;
    const Reply& dump = answers[b_dump];
    const std::string digest =
        digest_of(type, dump.type == Reply::Type::string ? dump.text : std::to_string(size));
    // "none": it has gone by now.
    if (type != "none") {
      const auto members = members_of(answers[b_fields], answers[b_members]);
      take_occupant(state, occupant({keys.key, type, {}, size, digest, members, pttl}));
    }
    answers += b_sizes + std::size(k_sizes);
  }
  if (listeners.empty()) return answers;
  const Reply& counts = *answers++;
  if (counts.is_error()) return answers;
  // From the end, so that the indices stay true.
  for (std::size_t i = listeners.size(); i-- > 0;)
    if (counts.number_at(2 * i + 1) == 0)
      state.waiters.erase(state.waiters.begin() + static_cast<std::ptrdiff_t>(listeners[i].waiter));
  return answers;
}

// While its slot is being moved some of its keys may be on another server already.
Io<void> LockReader::ask_elsewhere(const Look& look, Reply* answers, Instant deadline, Interrupt interrupt) {
  const auto is_elsewhere = [](const Reply& answer) {
    return answer.is_error() && fault_of(answer.text).cause == Cause::ask;
  };
  if (std::none_of(answers, answers + k_answers, is_elsewhere)) return {};
  Client client(site_, look.keys.key);
  const auto questions = look.questions();
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!is_elsewhere(answers[i])) continue;
    Pipeline out;
    out.add(questions[i]);
    KLOCK_TRY(there, client.commands(out, deadline, interrupt));
    answers[i] = std::move(there[0]);
  }
  return {};
}

Io<void> LockReader::look(Client& client, const std::vector<Look*>& looks, Instant deadline,
                          Interrupt interrupt) {
  Pipeline out;
  out.add({"TIME"});
  for (const Look* look : looks)
    for (const Look::Question& question : look->questions()) out.add(question);
  KLOCK_TRY(answers, client.commands(out, deadline, interrupt));
  const std::int64_t now_ms = milliseconds_of(answers[0]);
  Reply* next = answers.data() + 1;
  for (Look* look : looks) {
    KLOCK_CHECK(ask_elsewhere(*look, next, deadline, interrupt));
    look->hear(next, now_ms);
    next += k_answers;
  }
  return {};
}

Io<void> LockReader::look_closer(Client& client, const std::vector<Look*>& looks, Instant deadline,
                                 Interrupt interrupt) {
  Pipeline out;
  for (const Look* look : looks) look->ask_closer(out);
  if (out.count() == 0) return {};
  KLOCK_TRY(answers, client.commands(out, deadline, interrupt));
  const Reply* next = answers.data();
  for (Look* look : looks) next = look->hear_closer(next);
  return {};
}

Io<LockReader::Shares> LockReader::share(const std::vector<Look*>& looks, Instant deadline,
                                         Interrupt interrupt) {
  const auto* const cluster = std::get_if<ClusterUrl>(&site_);
  if (looks.empty()) return Shares{};
  if (cluster == nullptr) {
    Client& client = clients_.try_emplace("", site_, looks[0]->keys.key).first->second;
    return Shares{{&client, looks}};
  }
  auto slots = ask_slots(cluster->nodes, nullptr, deadline, interrupt);
  while (!slots && slots.error().cause == Cause::timeout && BootClock::now() < deadline)
    slots = ask_slots(cluster->nodes, nullptr, deadline, interrupt);
  const bool may_not_ask = !slots && slots.error().cause == Cause::no_permission;
  if (!slots && !may_not_ask) return tl::unexpected<Fault>(std::move(slots).error());
  std::map<Client*, std::vector<Look*>> shares;
  for (Look* const look : looks) {
    const std::uint16_t slot = slot_of(look->keys.key);
    if (may_not_ask) {
      Client& client = clients_.try_emplace(std::to_string(slot), site_, look->keys.key).first->second;
      shares[&client].push_back(look);
      continue;
    }
    const RedisUrl* const master = slots->master_of(slot);
    if (master == nullptr) {
      look->fault = Fault{Cause::later, {ErrorKind::not_ready, "no server of the Cluster has its slot", ""}};
      continue;
    }
    Client& client = clients_.try_emplace(describe_endpoint(*master), *master, look->keys.key).first->second;
    shares[&client].push_back(look);
  }
  return Shares(shares.begin(), shares.end());
}

// A slot may move in between, or its master fail: then what is known of the servers is out of date.
Io<void> LockReader::look_all(const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt) {
  const bool is_cluster = std::holds_alternative<ClusterUrl>(site_);
  for (;;) {
    Io<void> looked;
    auto shares = share(looks, deadline, interrupt);
    if (!shares) looked = tl::unexpected<Fault>(shares.error());
    for (std::size_t i = 0; looked && i < shares->size(); ++i) {
      auto& [client, some] = (*shares)[i];
      looked = look_until_settled(*client, some, deadline, interrupt);
    }
    if (looked || !is_cluster || !shares || !may_have_moved(looked.error().cause)) return looked;
    const Instant again = BootClock::now() + k_pause;
    if (again >= deadline)
      return fault(Cause::later, ErrorKind::not_ready, "its slot is being moved, or its master replaced",
                   "try again later");
    if (wait_ready(-1, 0, again, interrupt) == Ready::interrupted) return interrupted_fault();
  }
}

Io<void> LockReader::look_until_settled(Client& client, std::vector<Look*> looks, Instant deadline,
                                        Interrupt interrupt) {
  std::vector<Look*> open = looks;
  for (int round = 0; round < k_tries && !open.empty(); ++round) {
    KLOCK_CHECK(look(client, open, deadline, interrupt));
    std::erase_if(open, [](const Look* look) { return look->settled || look->fault; });
  }
  std::erase_if(looks, [](const Look* look) { return look->fault.has_value(); });
  return look_closer(client, looks, deadline, interrupt);
}

Io<std::vector<Io<LockState>>> LockReader::read(const std::vector<LockName>& locks, Instant deadline,
                                                Interrupt interrupt) {
  std::vector<Look> looks;
  looks.reserve(locks.size());
  for (const LockName& lock : locks) looks.emplace_back(lock, prefix_);
  std::vector<Look*> all;
  for (Look& look : looks) all.push_back(&look);
  KLOCK_CHECK(look_all(all, deadline, interrupt));
  std::vector<Io<LockState>> states;
  states.reserve(looks.size());
  for (Look& look : looks) {
    if (look.fault)
      states.emplace_back(tl::unexpected<Fault>(*std::move(look.fault)));
    else
      states.emplace_back(std::move(look.state));
  }
  return states;
}

}  // namespace klock::redis
