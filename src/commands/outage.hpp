// SPDX-License-Identifier: MIT
#pragma once

#include "commands/ancestors.hpp"
#include "commands/context.hpp"
#include "commands/return_watch.hpp"
#include "lease/acquirer.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// Where the holds on another ground than the store of `context` are. Precondition: host or nowhere.
std::unique_ptr<LockStore> open_elsewhere(const Context& context, Ground ground);

// A store that can't be reached before anything has begun: how things go on then (--if-unavailable), and that
// this is told, and noted in the log of this host and in the audit file. Used by one thread at a time: while
// one of watch_return() looks, by that.
class Outage {
 public:
  // `context` must outlive it. Touches nothing until the store is missed.
  explicit Outage(const Context& context) : context_(context) {}

  // NAME's first; the log tells of it, or of each where they go on without the store.
  void begin(std::vector<Claim> claims);

  // Has `policy` report the time for which the store is waited for.
  void observe(WaitPolicy& policy);

  // Where to go on after `error` ended an acquisition: under the lock of this host, once that is acquired, or
  // without any. nullopt: nowhere, which is noted; `error` may have a better hint then. Only where the store
  // gave no answer: one that said no may know of others who hold the lock. Never with Claim::once, whose
  // marks are in the store.
  std::optional<Context> way_out(Error& error);
  Ground ground() const { return ground_; }  // where we are, after it

  // After a way out: says that we go on without the store; and, once that is so, notes it.
  void tell_detour() const;
  void note_detour();
  bool went_on() const { return went_on_; }
  // What was noted has come to nothing.
  void note_failure(const std::string& why);

  // The acquisition ended otherwise, and without a lease: nobody waits for the store any more.
  void end(const std::string& why);

  // After a way out: looks from a thread of its own whether the store is back, and then tells and notes it
  // once, in the store's log too, and calls `then`. Nothing, if there is no thread to be had.
  std::unique_ptr<ReturnWatch> watch_return(std::function<void()> then = {});

 private:
  Status note(EventKind kind, const Claim& claim, const std::string& reason,
              std::optional<Duration> away = std::nullopt);
  bool note_return(Interrupt interrupt);
  bool waits() const { return context_.settings.if_unavailable.value == IfUnavailable::wait; }
  std::string told(const Error& error) const { return error.what + " (" + context_.store->describe() + ")"; }
  const char* how() const;
  const Claim& first() const { return claims_.front(); }

  const Context& context_;
  std::vector<Claim> claims_;
  std::unique_ptr<LockStore> host_;       // opened with the first event
  Instant since_{};                       // of the absence
  std::size_t noted_ = 0;                 // how many claims the store's log has been told of
  Error error_{ErrorKind::internal, {}};  // why we are elsewhere
  Ground ground_ = Ground::store;
  bool away_ = false;  // and waited for
  bool went_on_ = false;
};

}  // namespace klock
