// SPDX-License-Identifier: MIT
#pragma once

#include "lease/name.hpp"
#include "util/clock.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock {

// exclusive: alone. shared: with any number of others that are shared or have a slot. slots: likewise, but at
// most Claim::slots of that kind at once.
enum class Mode { exclusive, shared, slots };
std::string_view mode_name(Mode mode);

// Who holds or waits, for other people's eyes. Everything here may have been written by another host:
// it is untrusted and is escaped by output/ before it reaches a terminal.
struct Person {
  std::string user;
  std::string host;
  pid_t pid = 0;             // 0: unknown, or a hold that no process keeps (Claim::detached)
  std::string program;       // the command's name, without its arguments
  std::string message;       // -m
  std::string origin;        // boot id and pid namespace: equal only where `pid` means the same process
  std::string command = {};  // the whole command line, only with --record-command full
};

// This process on this host, running `program`. Cheap enough for every start; never fails (unknown parts stay
// empty).
Person describe_self(std::string program, std::string message);

// True only if `who` ran in this very pid namespace since this boot, that process exists no more, and neither
// the guard of lock `name`, nor a process that marks the hold (hold_mark.hpp), nor anything started under it
// (KLOCK_TOKEN or KLOCK_HELD has the token of `token_id`) is left. A hold without a process (pid 0) is never
// proven dead. Reads /proc: what can't be looked into is not proven dead.
bool provably_dead(const Person& who, const std::string& name, std::string_view token_id);

// The secret that marks a hold as ours: made before the first byte is sent, so that a retry after a lost
// reply recognises its own success.
struct Token {
  std::string value;
  // Names the hold in public; gives 48 of the 128 bits away, the rest stays secret.
  std::string id() const { return value.substr(0, 12); }
};

// Work that is to be done once: it is skipped if `key` is marked as completed.
struct Once {
  std::string key;
  Duration keep{};  // how long the marker lives
};

// What one run wants of one lock; fixed before anything is sent.
struct Claim {
  LockName lock;
  Token token;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;  // of Mode::slots; at least 1, at most k_most_slots
  Duration ttl{};
  // Keep the name taken for at least this long since it was acquired, once LockSession::count_min_hold() says
  // so.
  Duration min_hold{};
  bool reclaim = false;  // --on-gone reclaim: take a vanished record back if nobody was in between
  // The hold lives without a process: until its ttl is over or somebody releases it by its token.
  bool detached = false;
  bool for_script = false;                      // a script's: whoever has its token may end it at once
  bool by_token = false;                        // we know another process's hold by its token
  std::optional<std::size_t> max_waiters = {};  // do not queue up behind that many
  std::size_t wait_replicas = 0;                // the acquisition counts only when so many replicas have it
  std::optional<Once> once = {};
  std::vector<Token> ancestors =
      {};  // of the runs that we are part of: their holds are joined, not waited for
  Person who;
  std::string group = {};  // for the statistics; empty: that of the name
};

inline constexpr std::size_t k_most_slots = 10'000;

}  // namespace klock
