// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/client.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/record.hpp"

#include <array>
#include <optional>
#include <string>

namespace klock::redis {

// LockSession over the Redis server in charge: see scripts/acquire.lua, renew.lua and release.lua for what is
// atomic. Also the part of one server where several independent ones decide by majority (store/redlock): then
// the calls of the second group take the place of begin(), attempt() and withdraw().
class Session final : public LockSession {
 public:
  Session(const Site& site, const std::string& prefix, Claim claim);

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

  // This server's vote for us: like attempt() without a place in the queue, and nothing is logged. From then
  // on a renewal logs no loss, as one server does not make it.
  Result<Attempt> vote(Instant deadline, Interrupt interrupt);
  // Before renew() and release() of what the majority has given us with this fence, as settle() may not have
  // come to this server. `adds`: renew() also adds the hold where the server has nothing of it, nor of one
  // that came later (Renewed::reclaimed).
  void hold_as(std::uint64_t fence, bool adds);
  // The majority has given us the lock: notes its fence and that it was acquired after `waited`. False: this
  // server has nothing of ours.
  Result<bool> settle(std::uint64_t fence, Milliseconds waited, Instant deadline, Interrupt interrupt);
  // Gives a vote back that came to nothing, also one that is still on its way; logs nothing.
  Result<Released> take_back(Instant deadline, Interrupt interrupt);
  // Logs what happened to our claim while it waited.
  Status note(EventKind kind, const std::string& reason, Milliseconds waited, Instant deadline,
              Interrupt interrupt);

  const Claim& claim() const { return claim_; }
  // Why nothing of all this can be had here, once a call has found it out; it has done nothing.
  const std::optional<Error>& no_scripts() const { return client_.no_scripts(); }

 private:
  enum class How { enqueue, once, claim, vote };

  ScriptCall acquire_call(How how);
  ScriptCall renew_call(std::string_view ttl);
  const char* whose() const;
  std::string_view reclaim() const;
  bool has_joined() const { return token_ != claim_.token.value; }
  Result<Attempt> take(How how, Instant deadline, Interrupt interrupt);
  Io<void> check_replicas(Instant deadline, Interrupt interrupt);
  Result<std::optional<Attempt>> hear(const Reply& answer, How how);
  Lease held(const Reply& answer);
  Lease joined(const Reply& answer);
  Busy busy(const Reply& answer, How how);
  Instant when_to_look(const Busy& busy, bool is_mute, std::int64_t pttl) const;
  Result<Renewal> renewal(const Reply& answer);
  Result<Renewal> confirm_or_renew(std::string_view ttl, Instant deadline, Interrupt interrupt);
  Io<Released> release_once(Instant deadline, Interrupt interrupt);
  Result<Wake> await_as_holder(Instant until, Interrupt interrupt);
  Result<Wake> listen(Instant until, Interrupt interrupt);
  Result<Wake> watch_connection(Instant until, Interrupt interrupt);

  const Claim claim_;
  const LockKeys keys_;
  const std::string once_key_;
  const std::string mode_;
  const std::string details_;
  const std::string ttl_;
  const std::string waiter_life_;
  const std::string max_waiters_;
  std::string token_;         // of the hold: ours, or the ancestor's that we joined
  std::string hold_mode_;     // likewise
  std::string marker_;        // to be left at the release; empty: none
  std::string keep_;          // its life
  std::string number_ = "0";  // our number in the queue
  std::string fence_ = "0";
  std::string min_hold_ = "0";               // as far as it counts
  EventKind end_kind_ = EventKind::gave_up;  // for the log
  std::string end_reason_;
  bool loss_told_ = false;       // by the renewal that found it out
  bool one_of_several_ = false;  // servers; see vote()
  bool adds_ = false;            // the hold, where the server does not have it
  bool silent_ = false;          // the release is not logged
  std::optional<How> begun_;
  bool tried_ = false;    // else whatever hold our token has is kept by another process
  bool granted_ = false;  // told so, not claimed yet
  bool holding_ = false;
  bool release_sent_ = false;
  Instant look_at_ = k_never;  // as told by whoever handed the lock to the waiter before us
  Client client_;
};

}  // namespace klock::redis
