// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"
#include "lease/lock_state.hpp"
#include "util/result.hpp"

#include <optional>
#include <string>

namespace klock {

// What was completed (Claim::once), one file each. Unlike locks they have to outlast a reboot: those of the
// default lock directory lie in `once` in the state directory (state_directory.hpp); those of a chosen one
// lie in it. Their time is the wall clock's. Whoever reads or writes the markers of a lock while it holds the
// lock is alone with them.
class Markers {
 public:
  // `chosen`: as for LockDirectory. Touches nothing.
  explicit Markers(const std::string& chosen);

  // nullopt: none, or it has expired. Errors: refused, system; also where none can be kept.
  Result<std::optional<Marker>> find(const std::string& lock_key, const std::string& once_key) const;

  // On disk when it returns. Removes markers that have expired. Errors as above.
  Status put(const std::string& lock_key, const Once& once, const Person& who) const;

  // False: there was none.
  Result<bool> clear(const std::string& lock_key, const std::string& once_key) const;

 private:
  Result<std::string> path(const std::string& lock_key, const std::string& once_key) const;
  Status prepare() const;
  void sweep() const;

  std::string directory_;  // empty: there is none
  bool in_lock_directory_;
};

}  // namespace klock
