// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/client.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/record.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace klock::redis {

// LockSession for a user who may not run scripts: exclusive locks by SET NX PX, with WATCH, MULTI and EXEC
// around whatever depends on what is there ("Distributed Locks with Redis"; "Transactions", Optimistic
// locking). The same keys and entries as the scripts use, so that both see each other. Without a queue: who
// waits looks again and again, and whoever comes first after a release has the lock. What was granted to our
// token, while we could still run scripts, is taken as a free lock is. Log and statistics are not written.
// What cannot be had so is refused: other modes, Claim::max_waiters, wait_replicas, and joining an ancestor's
// hold.
class PlainSession final : public LockSession {
 public:
  // `no_scripts`: why they are not to be had.
  PlainSession(const Site& site, const std::string& prefix, const Claim& claim, Error no_scripts);

  void begin(bool, Instant, Interrupt) override {}
  Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Wake> await_news(Instant until, Interrupt interrupt) override;
  void withdraw(Instant deadline) override;
  Result<Renewal> renew(Instant deadline, Interrupt interrupt) override;
  Result<Renewal> confirm(Instant deadline, Interrupt interrupt) override;
  Result<Released> release(Instant deadline, Interrupt interrupt) override;
  Result<Released> complete(Instant deadline, Interrupt interrupt) override;
  Status count_min_hold(bool counts) override;
  void note_lost(const std::string& reason) override;

 private:
  // What stands at the lock's keys, as one look shows it.
  struct Seen {
    std::int64_t now_us = 0;
    bool is_taken = false;
    std::string type;
    std::string token;  // what a string holds
    std::string one;    // of several that hold it one's token
    std::int64_t pttl = -2;
    std::optional<HoldEntry> entry;  // of our hold
    std::string request;             // to stop, of our hold
    std::string fence;               // the last one; "": unknown
    std::string first_waiter;        // his token
    std::int64_t joined_until = 0;   // when the last of those who have joined our hold could end
    std::optional<Marker> marker;
  };

  Io<Seen> seen_in(const std::vector<Reply>& replies) const;
  // What to write after a look.
  using Decide = std::function<Pipeline(const Seen&)>;
  // The last look, and the answers to what was written.
  struct Done {
    Seen seen;
    std::vector<Reply> answers;
  };
  Io<Done> look_and_write(const Decide& decide, bool in_order, Instant deadline, Interrupt interrupt);

  Error needs_scripts(const std::string& what) const;
  std::optional<Error> refusal() const;
  bool is_mine(const Seen& seen) const { return seen.is_taken && seen.token == claim_.token.value; }
  // Its holder has released it.
  static bool is_over(const Seen& seen) {
    return seen.entry && (seen.entry->state == k_cooldown || seen.entry->state == k_left);
  }
  // The process that keeps the hold does not know of our release.
  bool is_of_another() const { return !tried_ && claim_.by_token; }
  std::string new_entry(const Seen& seen, const std::string& fence) const;
  std::optional<StopRequest> stop_request(const Seen& seen) const;
  Pipeline writes_of_take(const Seen& seen, const std::string& fence) const;
  Milliseconds renewed_life(const Seen& seen) const;
  Pipeline writes_of_renewal(const Seen& seen) const;
  Pipeline writes_of_release(const Seen& seen) const;
  Result<Attempt> busy(const Seen& seen, Instant deadline, Interrupt interrupt);
  Result<Renewal> renew_or_confirm(bool extend, Instant deadline, Interrupt interrupt);
  Result<Renewal> loss(const Seen& seen, Instant deadline, Interrupt interrupt);
  Io<Released> release_once(Instant deadline, Interrupt interrupt);
  std::optional<Holder> holder(const Seen& seen, Instant deadline, Interrupt interrupt);
  void note_in_index(Milliseconds life, Instant deadline, Interrupt interrupt);
  void publish(const std::string& token, const char* message, Instant deadline);

  const Claim claim_;
  const Error no_scripts_;
  const LockKeys keys_;
  const std::string once_key_;
  std::string marker_;  // to be left at the release; empty: none
  bool min_hold_counts_ = false;
  bool tried_ = false;         // else whatever hold our token has is kept by another process
  bool release_sent_ = false;  // and the answer was lost
  std::string fence_;          // of our hold
  Client client_;
};

}  // namespace klock::redis
