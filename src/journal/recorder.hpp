// SPDX-License-Identifier: MIT
#pragma once

#include "journal/recording_store.hpp"

namespace klock {

// Brings events to where they belong. Shared by the sessions of one store; safe from several threads.
class Recorder {
 public:
  enum class To { all, audit_file };  // audit_file: the store's own log has it from somebody else

  Recorder(std::unique_ptr<LockStore> store, Journal journal)
      : store_(std::move(store)), journal_(std::move(journal)) {}

  LockStore& store() const { return *store_; }
  // Errors: of the store's log.
  Status note(const Event& event, To to = To::all) const;

 private:
  const std::unique_ptr<LockStore> store_;
  const Journal journal_;
};

}  // namespace klock
