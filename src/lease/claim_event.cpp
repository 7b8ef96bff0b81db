// SPDX-License-Identifier: MIT
#include "lease/claim_event.hpp"

namespace klock {

Event event_of(EventKind kind, const Claim& claim) {
  Event event;
  event.wall_us = wall_us();
  event.kind = kind;
  event.lock = claim.lock;
  event.mode = claim.mode;
  event.slots = claim.slots;
  event.id = claim.token.id();
  event.who = claim.who;
  event.group = claim.group;
  event.unrenewed = claim.detached;
  return event;
}

}  // namespace klock
