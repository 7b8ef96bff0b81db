// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "store/redis/protocol.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"

namespace klock::redis {

// A connected, non-blocking stream socket to the server, over the first of its addresses that answers.
// Returns by the deadline, look-up included (lookup.hpp): addresses and "localhost" need none. Faults:
// interrupted, timeout, no_contact, final.
Io<Fd> dial(const RedisUrl& url, Instant deadline, Interrupt interrupt);

}  // namespace klock::redis
