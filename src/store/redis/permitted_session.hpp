// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/plain_session.hpp"
#include "store/redis/session.hpp"

#include <memory>
#include <string>
#include <utility>

namespace klock::redis {

// LockSession by scripts, or by plain commands as soon as the server says that this user may not run any.
class PermittedSession final : public LockSession {
 public:
  PermittedSession(const Site& site, const std::string& prefix, Claim claim)
      : site_(site), prefix_(prefix), scripted_(site, prefix, std::move(claim)) {}

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
  template <class Call>
  auto by_right(const Call& call);

  const Site site_;
  const std::string prefix_;
  Session scripted_;
  std::unique_ptr<PlainSession> plain_;
  bool min_hold_counts_ = false;
};

}  // namespace klock::redis
