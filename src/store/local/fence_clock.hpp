// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace klock {

// What fences are made of: microseconds since 1970 by a wall clock that can be put forward, but from one boot
// to the next not back. For the file of a lock, with its last fence, goes when nobody uses it. The file
// `.clock`, where the audit log lies, keeps how far the wall clock has been ahead of BootClock; where that
// can't be, it is the plain wall clock.
class FenceClock {
 public:
  // `chosen`: as for LockDirectory. `mode`: of a new file. Touches nothing.
  FenceClock(const std::string& chosen, mode_t mode);

  // Never blocks.
  std::uint64_t now_us() const;

 private:
  std::string path_;  // empty: there is none
  mode_t mode_;
};

}  // namespace klock
