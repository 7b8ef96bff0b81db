// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"
#include "lease/diagnosis.hpp"
#include "lease/event.hpp"
#include "lease/lock_state.hpp"
#include "lease/statistics.hpp"
#include "util/clock.hpp"
#include "util/interrupt.hpp"
#include "util/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace klock {

// A confirmed hold. `deadline` is safe: the store cannot give the lock to anyone else before it, as it is
// counted from before the request was sent, less the drift allowance (1 % + 2 ms). k_never: the store needs
// no renewal (kernel locks).
struct Lease {
  Instant acquired_at{};
  Instant deadline = k_never;
  std::uint64_t fence = 0;
  bool joined = false;  // an ancestor's hold (Claim::ancestors): its holder renews it, and it stays for us
  std::string joined_id = {};  // the id of that hold, where it is known
};

// A safe deadline for a request sent at `sent` that gives the lease `ttl`.
Instant lease_deadline(Instant sent, Duration ttl);

struct Interrupted {};

// The outcomes of an attempt to take a lock.
struct Busy {
  std::optional<Holder> holder = {};  // nullopt: taken, but nothing is known of the holder
  bool cooldown = false;              // nobody runs; --min-hold keeps the name taken
  std::size_t ahead = 0;              // waiters before us
  Instant look_again = k_never;       // attempt again by then even without news
  bool full = false;                  // not queued up: Claim::max_waiters are waiting already
  std::string why_polling = {};       // nobody will tell us when it is free, so we look again and again
};
// The work is done already (Claim::once): nothing is held.
struct Completed {
  Marker marker;
};
using Attempt = std::variant<Lease, Busy, Completed, Interrupted>;

// The outcomes of a renewal.
struct Renewed {
  Instant deadline = k_never;
  std::optional<StopRequest> stop = {};  // somebody asks us to stop and release
  bool reclaimed = false;                // the record had vanished and was taken back; nobody was in between
  bool joined = false;                   // of a fresh session: the token is that of a run which has joined it
  std::optional<Instant> since = {};     // of a fresh session: when the hold began, where that is known
};
struct NotMine {
  std::optional<Holder> holder = {};
  std::optional<StopRequest> removed = {};  // who removed our record, if that is known
};
struct Gone {
  std::optional<StopRequest> removed = {};
};
using Renewal = std::variant<Renewed, NotMine, Gone, Interrupted>;

enum class Released { done, not_mine, gone, interrupted };
enum class Wake { news, timeout, interrupted };

// One claim's dealings with a store: acquire, hold, release. Used by one thread at a time (the main thread,
// then the renewal thread, then the main thread again). Every call returns by its deadline, and at once when
// the interrupt is raised. An error is *doubt*, never loss: the caller may try again until its own
// deadline. After an error the session starts afresh (a new connection) at the next call by itself.
class LockSession {
 public:
  virtual ~LockSession() = default;

  // Optional: starts the first attempt without waiting for the answer, so that the caller can do other
  // start-up work meanwhile. A failure shows in attempt().
  virtual void begin(bool enqueue, Instant deadline, Interrupt interrupt) = 0;

  // Takes the lock if it is free and it is our turn; a success whose reply was lost is recognised by the
  // token. Busy with `enqueue`: we are in the queue (a later attempt keeps the place, also over a new
  // connection); without, or `full`: nothing is left behind. The marker of Claim::once is looked for in the
  // same atomic step. Errors: unreachable (also after retries of LOADING and the like until `deadline`),
  // refused, protocol, system, unsafe (Claim::wait_replicas; it is released again), config (slots are held
  // with another Claim::slots, or an ancestor's shared hold is in the way of an exclusive one).
  virtual Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) = 0;

  // Blocks until there may be news about our claim. As a waiter: attempt() again. As a holder: renew().
  virtual Result<Wake> await_news(Instant until, Interrupt interrupt) = 0;

  // Leaves the queue, giving the lock on if it was granted meanwhile. Best effort.
  virtual void withdraw(Instant deadline) = 0;

  // Confirms the hold and extends the lease. Renewed is the only confirmation; NotMine and Gone are loss. A
  // joined hold is only confirmed. In a fresh session it renews the hold that has the claim's token, whatever
  // its mode. The lease never ends sooner by it than anybody was told, but for one that no process relies on:
  // a detached hold's that no run has joined ends after the claim's ttl.
  virtual Result<Renewal> renew(Instant deadline, Interrupt interrupt) = 0;

  // Confirms the hold without extending it: Renewed with the deadline of what is left of the lease. Also in a
  // fresh session, by the claim's token: that of whoever took the hold, or has joined it.
  virtual Result<Renewal> confirm(Instant deadline, Interrupt interrupt) = 0;

  // Ends the hold, if it is ours, and gives the lock to the next waiter in the same step; leaves the queue.
  // In a fresh session that never acquired it ends the claim's hold by its token, whatever its mode: the
  // guard's after main died; or a script's (Claim::by_token), which asks the process that keeps the hold by a
  // StopRequest with `released`, and waits for it where that one has a command to stop. A joined hold stays
  // until all who have joined it have released; the token of the one who took it is void from his release
  // on. Idempotent.
  virtual Result<Released> release(Instant deadline, Interrupt interrupt) = 0;

  // Like release(), and marks Claim::once as completed in the same step, if the hold was ours.
  virtual Result<Released> complete(Instant deadline, Interrupt interrupt) = 0;

  // Whether Claim::min_hold counts at the release: only for a command that was started, so not before this
  // says so. Means nothing for a joined hold. Errors: system.
  virtual Status count_min_hold(bool counts) = 0;

  // The command that the hold is for has been started: time for what need not keep it from starting.
  virtual void heed_start() {}

  // What the log is to tell of the end that comes: of a waiter what has become of it (timed_out, gave_up), of
  // a hold why it ends, and released if that was by itself, whatever order to stop may have come.
  virtual void explain_end(EventKind kind, std::string reason) {
    (void)kind;
    (void)reason;
  }

  // After a release: whether the hold stays for those who have joined it, and the last of them ends it. For
  // whoever notes the end, where the store does not (LockStore::notes_events()).
  virtual bool stays() const { return false; }

  // For the log: the hold is lost as far as we know, and nothing of the command lives; the store may not have
  // told us. Ends it if it should be ours still. Best effort: takes 300 ms at most.
  virtual void note_lost(const std::string& reason) { (void)reason; }

  // The descriptor whose lifetime is the hold (kernel locks), to be kept open by the guard too; else -1.
  virtual int hold_fd() const { return -1; }
};

enum class Eviction {
  done,     // asked, or removed
  changed,  // somebody else holds it by now: nothing was done
  gone,     // nobody holds it
  foreign   // another client's lock: it cannot be asked, only removed
};

// A place where locks live. Thread-compatible: sessions are independent of each other.
class LockStore {
 public:
  virtual ~LockStore() = default;

  // For messages: the URL without any secret.
  virtual std::string describe() const = 0;

  // False: a hold ends with the processes that keep it; no lease, no renewal (the ttl means nothing).
  virtual bool has_leases() const = 0;

  // Whether this store can give what is claimed, as far as that is known without asking it: to be called
  // before anything is touched. Errors: usage, with the reason.
  virtual Status accepts(const Claim& claim) const {
    (void)claim;
    return {};
  }

  virtual std::unique_ptr<LockSession> session(Claim claim) = 0;

  virtual Result<LockState> inspect(const LockName& lock, Instant deadline, Interrupt interrupt) = 0;

  // Every lock of this store (of this prefix) that is held, cooling down or waited for and whose name matches
  // the shell pattern (fnmatch(3); empty: all), sorted by name. Cost grows with the locks, not with the
  // database.
  virtual Result<std::vector<LockState>> list(const std::string& pattern, Instant deadline,
                                              Interrupt interrupt) = 0;

  // Asks the holder `shown` to stop and release, and does not wait for that; a hold that no process keeps is
  // removed. Errors: unreachable, refused, system.
  virtual Result<Eviction> ask_stop(const LockName& lock, const Holder& shown, const StopRequest& request,
                                    Instant deadline) = 0;

  // The marker of completed work (Claim::once); nullopt: none.
  virtual Result<std::optional<Marker>> marker(const LockName& lock, const std::string& key,
                                               Instant deadline) = 0;
  // False: there was none.
  virtual Result<bool> clear_marker(const LockName& lock, const std::string& key, Instant deadline) = 0;

  // Removes the hold `shown`, tells the holder, and gives the lock to the next waiter. Blocks for a round
  // trip; where several share a kernel lock, until that holder has let go. Errors: unreachable, refused;
  // system, if it has not by the deadline: it has been told.
  virtual Result<Eviction> remove(const LockName& lock, const Holder& shown, const StopRequest& request,
                                  Instant deadline) = 0;

  // Whether changes are noted in the store's log by whatever makes them, in the same step. If not, whoever
  // deals with a session passes each Event to note().
  virtual bool notes_events() const { return true; }

  // Writes an event that no session of the store tells of, in its log and statistics. Errors: unreachable,
  // refused, system.
  virtual Status note(const Event& event, Instant deadline, Interrupt interrupt) = 0;

  // The log, whose length is bounded: events that are older are gone. Errors: unreachable, refused, system.
  virtual Result<EventPage> events(const EventQuery& query, Instant deadline, Interrupt interrupt) = 0;

  // What has been counted since the store keeps statistics, by group, sorted. Errors as above.
  virtual Result<std::vector<GroupStatistics>> statistics(Instant deadline, Interrupt interrupt) = 0;

  // After the removal of another client's lock (Holder::foreign): wakes those of its own kind who wait for
  // it, as its release would have done. Best effort: nobody depends on it, as they all look again by
  // themselves. Errors: why it was not done.
  virtual Status wake_others(const LockName&, const Holder&, Instant /*deadline*/) { return {}; }

  // Whether locks of this lease are safe here: what the store tells of itself, what we may do in it, how fast
  // it answers. Changes nothing, and creates nothing. What may not be read is Severity::unknown. Errors:
  // unreachable, refused (the login).
  virtual Result<std::vector<Finding>> examine(Duration ttl, Instant deadline, Interrupt interrupt) = 0;
};

}  // namespace klock
