// SPDX-License-Identifier: MIT
#pragma once

#include "lease/statistics.hpp"
#include "util/result.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace klock {

// The statistics of the local store: `statistics` beside the log (event_file.hpp). A slot of 8 KiB for each
// group, found by the digest of its name; written under the kernel's lock on the slot, which nobody waits for
// longer than a few milliseconds: what cannot be counted then is not. Thread-safe.
//
//   [0, 8192)         the version of this layout, and for those without a slot of their own the slot of
//   k_other_group from 8192         k_most_groups slots
class StatisticsFile {
 public:
  // `chosen`, `mode`: as for EventFile. Touches nothing.
  StatisticsFile(const std::string& chosen, mode_t mode);

  // Errors: refused, system; also of a file that is not ours.
  Status add(const std::string& group, const Event& event) const;

  // Sorted by group. A file that is not there has none. Errors as above.
  Result<std::vector<GroupStatistics>> read() const;

 private:
  std::string path_;  // empty: there is none
  mode_t mode_;
};

}  // namespace klock
