// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace klock {

// Which processes belong to the command.
enum class Scope : std::uint8_t {
  // The command, and the group `group`, which is the command's alone.
  own_group,
  // The command, and the descendants of `root` in `group`, which also holds our caller, or in a group that
  // the command made for itself, as an interactive shell does.
  shared_group,
  // Every descendant of `root`.
  tree
};

// The command and what it started. `root` is the calling process: a subreaper, so that orphans stay its
// descendants. In own_group the caller leaves the group's leader unreaped as long as this is used: then the
// number can't be given to a group of strangers.
//
// Reads /proc. Where that can't be done (not mounted, of another pid namespace) own_group works without; the
// other scopes then reach only the command itself.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ProcessGroup(Scope scope, pid_t command, pid_t group)
      : scope_(scope), command_(command), group_(group), led_(command) {}

  // Sends `signal` to each living member once. Outside own_group a member that is born meanwhile may be
  // missed, and CONT is sent only to members that are stopped: a shell's `fg` has sent it to the whole group
  // already.
  void signal(int signal) const;

  // Whether any member lives (zombies don't), or the guard of a klock among them still does its work. Errs on
  // the side of life when the system is out of descriptors.
  bool alive() const;

  // The command has been reaped: its number may belong to a stranger now.
  void forget_command() { command_ = 0; }

 private:
  bool any_alive() const;
  bool may_belong(pid_t pid) const;

  Scope scope_ = Scope::own_group;
  pid_t command_ = 0;
  pid_t group_ = 0;
  pid_t led_ = 0;  // the group that the command leads if it makes one
};

}  // namespace klock
