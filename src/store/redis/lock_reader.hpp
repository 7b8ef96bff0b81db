// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "store/redis/client.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// Looks at locks with plain read commands, so that a user who may only read can look too: a script needs more
// rights. Where TIME or PUBSUB are forbidden, this host's wall clock stands in, and every waiter counts as
// connected.
class LockReader {
 public:
  LockReader(Client& client, std::string_view prefix) : client_(client), prefix_(prefix) {}

  // Blocks until the deadline at most. One outcome for each lock, in order: a fault is that of its keys
  // alone. The name of a lock is empty where neither `locks` nor the store tells it.
  Io<std::vector<Io<LockState>>> read(const std::vector<LockName>& locks, Instant deadline,
                                      Interrupt interrupt);

 private:
  struct Look;

  Io<void> look(const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt);
  Io<void> look_closer(const std::vector<Look*>& looks, Instant deadline, Interrupt interrupt);

  Client& client_;
  const std::string prefix_;
};

}  // namespace klock::redis
