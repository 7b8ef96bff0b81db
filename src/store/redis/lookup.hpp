// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/protocol.hpp"
#include "util/clock.hpp"
#include "util/interrupt.hpp"

#include <string>
#include <vector>

namespace klock::redis {

// The addresses of `host` in numbers, best first, as getent(1) knows them: the name service of this machine
// with all its modules, in a process of its own. That one can be killed when the deadline has passed, while
// getaddrinfo(3) can't be called off; and it lets klock be linked statically. Faults: interrupted, timeout,
// no_contact (no such name), final.
Io<std::vector<std::string>> look_up(const std::string& host, Instant deadline, Interrupt interrupt);

}  // namespace klock::redis
