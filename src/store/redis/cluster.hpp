// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/redis/route.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// Which of the 16384 slots a key lies in: CRC16 of its hash tag, see "Redis Cluster specification".
std::uint16_t slot_of(std::string_view key);

// Which server has which slots, as one of them says (CLUSTER SLOTS).
class SlotMap {
 public:
  // Pure. `asked`: the server that answers; the others have its login. What makes no sense is left out.
  SlotMap(const Reply& slots, const RedisUrl& asked);

  // nullptr: nobody has the slot.
  const RedisUrl* master_of(std::uint16_t slot) const;
  // Each once.
  std::vector<RedisUrl> masters() const;
  const RedisUrl& told_by() const { return told_by_; }
  // Replicas too.
  const std::vector<RedisUrl>& servers() const { return servers_; }
  // How many slots nobody has, and which masters have no replica.
  std::size_t unserved() const;
  std::vector<RedisUrl> alone() const;

 private:
  struct Range {
    std::uint16_t first;
    std::uint16_t last;
    RedisUrl master;
    std::size_t replicas;
  };
  RedisUrl told_by_;
  std::vector<Range> ranges_;
  std::vector<RedisUrl> servers_;
};

// Asks one server after another, each for 300 ms at most (600 with TLS), for the first answer. `except`: one
// that is not asked.
Io<SlotMap> ask_slots(const std::vector<RedisUrl>& servers, const RedisUrl* except, Instant deadline,
                      Interrupt interrupt);

// To the master that has a slot. Any server is good to begin with: one that has not got the slot names the
// one that has (MOVED), or may have it while it is being moved (ASK: for the next request alone). When that
// one is gone the others are asked who has the slot now: a replica takes it over after the
// cluster-node-timeout. A master that is cut off from most of the others takes requests for as long: what it
// is told then is lost.
class ClusterRoute final : public Route {
 public:
  ClusterRoute(const ClusterUrl& url, std::uint16_t slot) : known_(url.nodes), slot_(slot) {}

  // Faults besides: later (the slot's master is not to be had: a failover may be on its way).
  Io<std::unique_ptr<Connection>> open(Instant deadline, Interrupt interrupt) override;
  bool may_change() const override { return true; }
  bool splits_keys() const override { return true; }
  bool is_current(Instant, Interrupt) override { return !for_once_; }
  bool leads_elsewhere(const Fault& fault, Instant deadline, Interrupt interrupt) override;
  bool redirect(const Fault& fault) override;

 private:
  Io<std::unique_ptr<Connection>> open_any(Instant deadline, Interrupt interrupt);
  bool find_owner(Instant deadline, Interrupt interrupt);
  void learn(const std::vector<RedisUrl>& servers);

  std::vector<RedisUrl> known_;  // that was good last comes first
  const std::uint16_t slot_;
  std::optional<RedisUrl> owner_;  // of the slot, as far as we know
  std::optional<RedisUrl> asked_;  // where the next request goes
  std::optional<RedisUrl> last_;   // that was opened
  bool for_once_ = false;          // that was for one request
};

// Pure.
Finding judge_slots(const SlotMap& slots);

}  // namespace klock::redis
