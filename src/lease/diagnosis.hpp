// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace klock {

// ok: as it should be. unknown: the store does not tell. warning: locks work, but less well, or are lost
// where they need not be. danger: locks do not work, or two may hold one.
enum class Severity : std::uint8_t { ok, unknown, warning, danger };

// One thing that was looked at in a store. The texts may have parts that the store's server wrote: they are
// untrusted, and output/ escapes them.
struct Finding {
  Severity severity = Severity::ok;
  std::string subject;        // a word or two, the same in every answer: "eviction"
  std::string what;           // what was found, and what follows from it
  std::string remedy = {};    // empty: nothing to be done
  std::string identity = {};  // of the server that was looked at, whatever its name; not shown
};

// ok where there are none.
inline Severity worst_of(const std::vector<Finding>& findings) {
  Severity worst = Severity::ok;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

}  // namespace klock
