// SPDX-License-Identifier: MIT
#pragma once

#include "commands/context.hpp"
#include "commands/locks.hpp"
#include "supervise/signals.hpp"

#include <string>

namespace klock {

// How the locks of a run end once everything that had to die is dead.
class Release {
 public:
  // For the log: how the holds end (released or forced), and why.
  Release(const Context& context, SignalDesk& desk, EventKind how, std::string why)
      : context_(context), desk_(desk), how_(how), why_(std::move(why)) {}

  enum class End {
    free,     // for others, but for a cooldown
    kept,     // by the run or shell whose hold we had joined
    unknown,  // lost, or it will end by itself
    not_ours  // any more
  };

  // Releases `lock`; with `complete` the work of Claim::once is marked in the same step. What can't be
  // confirmed is told.
  End release(HeldLock& lock, bool complete);

 private:
  End unconfirmed(const HeldLock& lock, bool complete, const std::string& why) const;
  bool gives_up();

  const Context& context_;
  SignalDesk& desk_;
  const EventKind how_;
  const std::string why_;
};

}  // namespace klock
