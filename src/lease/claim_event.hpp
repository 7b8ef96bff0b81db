// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"
#include "lease/event.hpp"

namespace klock {

// That something happened to a claim just now, by this host's clock; what else is known of it is the caller's
// to add.
Event event_of(EventKind kind, const Claim& claim);

}  // namespace klock
