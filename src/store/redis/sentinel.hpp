// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/redis/route.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace klock::redis {

// To the master that Sentinels name, see "Guidelines for Redis clients with support for Redis Sentinel" in
// Redis' documentation. They are asked one after another until more than half of all have named the same
// server, so that one that is cut off from the others does not lead us to a master that has been replaced;
// if fewer answer, the server that most of these name, of two the first. Whether it is a master it says
// itself, before it answers anything else. A Sentinel that is silent costs 300 ms (600 with TLS), once: it is
// asked last from then on.
//
// A master that is replaced goes on as one until it learns of it, which takes about 10 s where it is not cut
// off: so the Sentinels are asked again before each request that comes more than 100 ms after the last time.
class SentinelRoute final : public Route {
 public:
  explicit SentinelRoute(const SentinelUrl& url) : url_(url), sentinels_(url.sentinels) {}

  // Faults besides: no_contact or timeout (no Sentinel answers), login, final (none knows the master), later
  // (the server they name is no master, or is not to be had: a failover may be on its way).
  Io<std::unique_ptr<Connection>> open(Instant deadline, Interrupt interrupt) override;
  bool may_change() const override { return true; }
  bool is_current(Instant deadline, Interrupt interrupt) override;
  // Of one that is merely silent only if the Sentinels name another.
  bool leads_elsewhere(const Fault& fault, Instant deadline, Interrupt interrupt) override;

 private:
  struct Named {
    RedisUrl server;
    bool by_most = false;  // of all Sentinels
  };
  Io<Named> find_master(Instant deadline, Interrupt interrupt);
  bool is_replaced(Instant deadline, Interrupt interrupt);

  const SentinelUrl url_;
  std::vector<RedisUrl> sentinels_;  // those that were silent last
  RedisUrl master_;                  // that we are led to
  Instant ask_again_{};
};

// What one of the Sentinels said, for the doctor.
struct Vote {
  std::string server;  // that it names; empty: none
  std::string failed;  // why it did not answer
};

// Pure. `votes`: one for each Sentinel of the URL.
Finding judge_sentinels(const std::vector<Vote>& votes);

// Asks each of them, for 300 ms at most (600 with TLS).
std::vector<Vote> ask_sentinels(const SentinelUrl& url, Instant deadline, Interrupt interrupt);

}  // namespace klock::redis
