// SPDX-License-Identifier: MIT
#pragma once

#include "util/clock.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace klock {

// What fences are made of: microseconds since 1970 that do not go back when the wall clock is put back,
// though the file of a lock, with its last fence, goes when nobody uses it. It is BootClock and the moment of
// the boot, on which all agree who use the directory: whoever comes first puts it down in the target of a
// symbolic link there, which is never changed. (A link comes into being together with its target, and needs
// no descriptor; a limit on the size of files does not keep anybody from it.) The link's name tells the boot,
// so that a directory that outlasts it gets a new one. Where no link can be had, as without /proc, and on
// file systems that have none, it is the plain wall clock.
//
// Containers that share the directory have to share the boot clock, as for all that a lock file tells: none
// with a time namespace of its own.
class FenceClock {
 public:
  using Wall = std::int64_t (*)();

  // The directory need not be there yet. The first one in a process asks the kernel for its boot, as there
  // may be no descriptor for that later.
  explicit FenceClock(const std::string& directory, Wall wall = wall_us);

  // One readlink(2), unless it is the first time in this directory. Never fails.
  std::uint64_t now_us() const;

 private:
  std::optional<std::int64_t> boot_wall_us() const;
  void forget_other_boots() const;

  const std::string directory_;
  const std::string name_;  // of the link; empty: there is none
  const Wall wall_;
};

}  // namespace klock
