// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "supervise/other_process.hpp"
#include "util/fd.hpp"

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

namespace klock {

struct KeeperOrders {
  LockSession& session;  // holds; the keeper's alone from now on
  std::string id;        // of the hold
  Lease lease;
  Duration ttl{};
  Duration grace{};              // between the signal and the end of a lease that can't be renewed
  const OtherProcess& shell;     // whom it serves
  int signal = 0;                // sent to the shell when it has to stop
  bool signal_when_lost = true;  // false: --on-lost warn
  // Says what happened, and a hint, on standard error, which is the shell's for that time.
  std::function<void(const std::string& what, const std::string& hint)> tell;
  std::function<void()> begin = {};  // called in the keeper, once it is on its own
};

// The process that keeps a shell's hold after klock itself has ended: it renews until the shell ends or
// somebody releases the hold by its token, and then releases. It keeps none of the shell's descriptors, is in
// a session of its own, and ends with a release on SIGTERM; other signals are nothing to it.
//
// When the lease is lost, or cannot be renewed until shortly before its end, or somebody asks for a stop, it
// signals the shell; on the shell's standard error it says so, who asked, and why. It can't do more: a
// shell's commands can't be told from others. After a request to stop the hold stays until the shell has
// ended, so that nobody overlaps with it.
class Keeper {
 public:
  // Forks it; returns once it has let go of everything of the shell's. Blocks for as long as that takes.
  // Preconditions: one thread, signals blocked. Errors: system; the hold is still the caller's then.
  static Result<Keeper> start(const KeeperOrders& orders);

  // Unless it was confirmed, it releases; waits for that.
  ~Keeper();
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = delete;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The shell has been told of its hold. Errors: system; the keeper has ended, and nobody renews the hold.
  Status confirm();

 private:
  Keeper(Fd line, pid_t pid) : line_(std::move(line)), pid_(pid) {}

  Fd line_;  // closed: confirmed, or moved away
  pid_t pid_;
};

// Ends the keepers of the hold with this id, which only they know of (--if-unavailable run). Best effort.
void end_keepers(std::string_view id);

}  // namespace klock
