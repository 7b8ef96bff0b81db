// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "lease/lock_store.hpp"
#include "store/redis/session.hpp"
#include "store/redlock/decisions.hpp"
#include "store/redlock/servers.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace klock::redlock {

// LockSession over several independent servers: what a majority of those configured says is so. There is no
// queue: whoever waits tries again after pauses of random length. A hold is one only once a majority has its
// fence (the greatest that they proposed) noted; whatever else was got is given back at once. The lease is
// counted from before the first server was asked. Source: "Distributed Locks with Redis" (the Redlock
// algorithm), redis.io.
class RedlockSession final : public LockSession {
 public:
  RedlockSession(const RedlockUrl& url, const std::string& prefix, Claim claim);

  // Does nothing: whoever calls it may fork before attempt(), and there must be no threads then.
  void begin(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Wake> await_news(Instant until, Interrupt interrupt) override;
  void withdraw(Instant deadline) override;
  Result<Renewal> renew(Instant deadline, Interrupt interrupt) override;
  Result<Renewal> confirm(Instant deadline, Interrupt interrupt) override;
  Result<Released> release(Instant deadline, Interrupt interrupt) override;
  Result<Released> complete(Instant deadline, Interrupt interrupt) override;
  Status count_min_hold(bool counts) override;
  void explain_end(EventKind kind, std::string reason) override;
  void note_lost(const std::string& reason) override;

 private:
  // How one try ended, if not as the caller wants to hear of it. nullopt: another one may do better.
  using Try = Result<std::optional<Attempt>>;

  Try try_once(Instant deadline, Interrupt interrupt);
  Try settle(const Election& election, Instant sent, Interrupt interrupt);
  Lease joined(const Answers<Attempt>& votes, const Election& election);
  Result<Attempt> busy(bool enqueue, Instant deadline);
  Instant give_back(Instant deadline);
  void note(EventKind kind, const std::string& reason, Instant deadline);
  Result<Renewal> confirm_or_renew(bool extends, Instant deadline, Interrupt interrupt);
  Milliseconds waited() const;
  std::optional<std::uint64_t> settled_fence() const;  // of a hold of our own
  Enough with_all_of_ours(bool decided, const std::vector<bool>& answered) const;

  const Claim claim_;
  const std::vector<std::string> names_;  // of the servers
  const Duration server_time_;            // that one may take for an answer
  Servers<redis::Session> servers_;
  std::vector<bool> ours_;        // which servers have confirmed our vote, hold, or what we have joined
  std::vector<bool> unheard_;     // which have not answered yet: they may have something of ours too
  std::vector<bool> lacking_;     // which have told a renewal that was confirmed that they have nothing of it
  std::optional<Holder> holder_;  // as the last try saw it
  bool cooldown_ = false;
  bool holding_ = false;
  std::uint64_t fence_ = 0;  // while holding
  int early_renewals_ = 0;   // of a new hold that not all have: how many are still to come
  bool joined_ = false;      // an ancestor's hold
  bool asked_ = false;       // for votes, so that there may be some to give back
  std::optional<Instant> waiting_since_;
  Duration pause_;
  std::optional<EventKind> end_kind_;
  std::string end_reason_;
  bool min_hold_counts_ = false;
};

}  // namespace klock::redlock
