// SPDX-License-Identifier: MIT
#include "lease/lock_store.hpp"

namespace klock {

Instant lease_deadline(Instant sent, Duration ttl) {
  return sent + ttl - (ttl / 100 + std::chrono::milliseconds(2));
}

}  // namespace klock
