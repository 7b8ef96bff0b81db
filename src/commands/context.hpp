// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"
#include "lease/lock_store.hpp"
#include "output/message.hpp"

#include <memory>
#include <optional>
#include <string>

namespace klock {

// What every subcommand needs first.
struct Context {
  Settings settings;
  Messenger say{0};
  std::unique_ptr<LockStore> store;
};

// Resolves the settings, explains them under -v, and makes the store (which touches nothing yet).
Result<Context> open_context(const RawValues& flags);

// The store of this host alone, where what happens is noted as in that of `context`.
std::unique_ptr<LockStore> open_host_store(const Context& context);

// Tells what went wrong and returns its exit status. Mistakes of usage and configuration are told even under
// -q.
int report_failure(const Messenger& say, const std::string& name, const std::string& store,
                   const Error& error);

// The same before there are settings: -q is taken from the flags.
int report_failure(const RawValues& flags, const std::string& name, const Error& error);

// The time a command other than `run` gives the store for one answer.
Instant store_deadline(const Settings& settings);

// The number of --signal. Errors: usage or config, by its origin.
Result<int> stop_signal(const Settings& settings);

// --group; empty: not given. Errors: usage or config, by its origin.
Result<std::string> chosen_group(const Settings& settings);

// --wait-replicas. Errors: usage or config, by its origin, where the store has none.
Result<std::size_t> chosen_replicas(const Settings& settings);

// user@host of this process, for orders to others.
std::string who_am_i();

}  // namespace klock
