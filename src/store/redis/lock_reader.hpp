// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "store/redis/client.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace klock::redis {

// Looks at locks with plain read commands, so that a user who may only read can look too: a script needs more
// rights. Where TIME or PUBSUB are forbidden, this host's wall clock stands in, and every waiter counts as
// connected.
class LockReader {
 public:
  LockReader(const Site& site, std::string_view prefix) : site_(site), prefix_(prefix) {}

  // Blocks until the deadline at most. One outcome for each lock, in order: a fault is that of its keys
  // alone. The name of a lock is empty where neither `locks` nor the store tells it.
  Io<std::vector<Io<LockState>>> read(const std::vector<LockName>& locks, Instant deadline,
                                      Interrupt interrupt);

 private:
  struct Look;

  // For each server the looks whose locks it has.
  using Shares = std::vector<std::pair<Client*, std::vector<Look*>>>;
  Io<Shares> share(const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt);
  Io<void> look_all(const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt);
  Io<void> look_until_settled(Client& client, std::vector<Look*> looks, Instant deadline,
                              Interrupt interrupt);
  Io<void> ask_elsewhere(const Look& look, Reply* answers, Instant deadline, Interrupt interrupt);
  Io<void> look(Client& client, const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt);
  static Io<void> look_closer(Client& client, const std::vector<Look*>& looks, Instant deadline,
                              Interrupt interrupt);

  const Site site_;
  const std::string prefix_;
  // One for each server, by its endpoint; of what is no Cluster a single one.
  std::map<std::string, Client> clients_;
};

}  // namespace klock::redis
