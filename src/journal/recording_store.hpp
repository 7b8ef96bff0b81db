// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"

#include <functional>
#include <memory>
#include <string>

namespace klock {

// Where events go besides the log of a store that notes them itself.
struct Journal {
  std::string audit_file;  // see write_audit(); empty: none
  // An event could not be written to the one or the other; from any thread.
  std::function<void(const Error& error)> audit_failed;
  std::function<void(const Error& error)> log_failed;
};

// `inner`, whose sessions and removals are noted: in the store's own log unless it does that itself
// (LockStore::notes_events), and in the audit file. What only the store knows (that a lease has expired) is
// not there, and a release by somebody who has the token of a hold that a process keeps is told by that
// process.
std::unique_ptr<LockStore> record_events(std::unique_ptr<LockStore> inner, Journal journal);

}  // namespace klock
