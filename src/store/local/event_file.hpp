// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"
#include "util/fd.hpp"
#include "util/result.hpp"

#include <sys/types.h>

#include <string>

namespace klock {

// The audit log of the local store: `events.log`, JSON lines, in the state directory (state_directory.hpp),
// or in a lock directory that was chosen. Its size is bounded: a file that is full becomes `events.log.1`,
// and what that was is gone. Thread-safe; many processes write at once.
class EventFile {
 public:
  // `chosen`: as for LockDirectory. `mode`: of new files. Touches nothing.
  EventFile(const std::string& chosen, mode_t mode);

  // Errors: refused, system; also where none can be kept.
  Status append(const Event& event) const;

  // Lines that are no events are left out; a file that is not there has none. Errors as above.
  Result<EventPage> read(const EventQuery& query) const;

 private:
  Fd open_current() const;
  void make_room(const Fd& file) const;

  std::string path_;  // empty: there is none
  mode_t mode_;
  bool make_directory_;
};

}  // namespace klock
