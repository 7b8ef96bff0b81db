// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"
#include "store/redis/client.hpp"

#include <string>

namespace klock::redis {

// Reads the stream that the scripts write (log() in scripts/common.lua). See LockStore::events().
Io<EventPage> read_events(Client& client, const std::string& prefix, const EventQuery& query,
                          Instant deadline, Interrupt interrupt);

// One entry of it: an id and names with values. nullopt: no event that we know.
std::optional<Event> parse_event_entry(const Reply& entry, const std::string& prefix);

}  // namespace klock::redis
