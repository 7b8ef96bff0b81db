// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "util/fd.hpp"
#include "util/mutex.hpp"

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace klock {

// What the renewal thread reports, in order. Lost ends the renewing, and StopAsked if so chosen.
struct Trouble {
  Error error;
  Instant deadline;
};                    // renewal fails for now; the lease still runs until `deadline`
struct Recovered {};  // renewed again after trouble
struct Reclaimed {};  // the record had vanished and was taken back
struct Lost {
  std::string why;
  std::optional<StopRequest> removed = {};
  std::optional<Holder> now = {};  // who has it instead, if that is known
};
struct StopAsked {
  StopRequest request;
};
using RenewalEvent = std::variant<Trouble, Recovered, Reclaimed, Lost, StopAsked>;

// Keeps a lease alive from a thread of its own: renews at a third of the ttl, sleeps in await_news between,
// so that an order to stop arrives at once. While it lives it is the only user of the session. A failed
// renewal is doubt: it is tried again until the deadline; "not mine", "gone" and a passed deadline are loss.
class Renewer {
 public:
  enum class WhenAsked { end, go_on };  // to stop

  // `on_extended` is called from the thread with each confirmed new deadline; it must not block.
  Renewer(LockSession& session, Lease lease, Duration ttl, std::function<void(Instant)> on_extended,
          WhenAsked when_asked = WhenAsked::end);
  ~Renewer();  // stop()

  // When the thread has to run at the latest.
  Instant first_due() const;

  // Before start(): nothing is reported but Lost and StopAsked.
  void report_ends_only() { ends_only_ = true; }

  // Starts the thread. Errors: system; the caller may try again.
  Status start();

  bool running() const { return thread_.joinable(); }

  // Interrupts a renewal in flight and joins: when it returns nothing more will be sent. Idempotent.
  void stop();

  int event_fd() const { return events_ready_.get(); }  // readable while take_events() has something
  std::vector<RenewalEvent> take_events();

  // The last confirmed deadline; call it after stop().
  Instant deadline() const { return lease_.deadline; }
  // For people, should that deadline have passed; call it after stop().
  std::string why_expired() const;

 private:
  void run();
  bool rest(Instant due);
  Instant due_from(Instant confirmed) const;
  void note_awake(Instant now, Instant due);
  bool renew_once(Instant now);
  void report(RenewalEvent event);

  LockSession& session_;
  Lease lease_;
  const Duration ttl_;
  const std::function<void(Instant)> on_extended_;
  const WhenAsked when_asked_;
  bool ends_only_ = false;
  bool asked_ = false;
  bool in_trouble_ = false;
  Duration overslept_{};  // past the time at which we meant to wake
  Fd stop_requested_;
  Fd events_ready_;
  Mutex mutex_;
  std::vector<RenewalEvent> events_ KLOCK_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace klock
