// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/local/byte_watch.hpp"
#include "store/local/fence_clock.hpp"
#include "store/local/lock_directory.hpp"
#include "store/local/lock_file.hpp"
#include "store/local/markers.hpp"
#include "store/local/records.hpp"
#include "store/local/seats.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// One claim's dealings with one lock file. States: outside, queued (a ticket), holding (a lease, our own or a
// joined one). Locks of the kernel need no connection and no renewal: what can go wrong is that the file is
// taken away. A detached hold is known by its record alone: having got it the session is outside again.
class LocalSession final : public LockSession {
 public:
  LocalSession(std::shared_ptr<const LockDirectory> directory, Markers markers, Claim claim);
  // Leaves the queue. A hold ends with the last copy of hold_fd().
  ~LocalSession() override;

  void begin(bool, Instant, Interrupt) override {}  // an attempt takes microseconds
  Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) override;
  Result<Wake> await_news(Instant until, Interrupt interrupt) override;
  void withdraw(Instant deadline) override;
  Result<Renewal> renew(Instant deadline, Interrupt interrupt) override;
  Result<Renewal> confirm(Instant deadline, Interrupt interrupt) override;
  Result<Released> release(Instant deadline, Interrupt interrupt) override;
  Result<Released> complete(Instant deadline, Interrupt interrupt) override;
  Status count_min_hold(bool counts) override;
  bool stays() const override { return stays_; }
  int hold_fd() const override;

 private:
  // Where we stand: in this file, with this ticket, asleep on that byte.
  struct Place {
    std::shared_ptr<LockFile> file;
    std::optional<Ticket> ticket;
    std::shared_ptr<ByteWatch> watch;
    Fd changes;             // inotify: the file is removed, renamed, or touched to tell of an order to stop
    std::size_t ahead = 0;  // tickets before ours, the holder's included, when we last looked
    bool cooldown = false;  // it is our turn once the cooldown ends: no byte to sleep on
    bool no_slot = false;   // likewise once a slot is free
    std::vector<Ticket> idle;       // these are before us, and none of them has taken the free lock
    Instant idle_since{};           // since then
    Instant overtake_at = k_never;  // then we wait for them no longer
    bool overtake = false;
  };
  // no_slot, cooldown, joined: `hold` could be had. blind: busy, and there is no way to be woken.
  enum class Step { held, busy, no_slot, cooldown, joined, completed, again, blind };

  bool alone() const { return claim_.mode == Mode::exclusive; }
  Result<Step> join(LockFile& file);
  Result<Step> join(LockFile& file, const Token& ancestor);
  Result<bool> is_completed();
  Attempt outcome();
  Result<Attempt> enter(bool enqueue, Instant deadline, Interrupt interrupt);
  Result<std::optional<Attempt>> enter_once(bool enqueue, Instant deadline, Interrupt interrupt);
  Result<std::optional<Attempt>> go_on(std::shared_ptr<LockFile> file, Step step, bool enqueue,
                                       Instant deadline, Interrupt interrupt);
  Result<Step> try_newcomer(LockFile& file);
  Result<std::optional<Busy>> queue_up(std::shared_ptr<LockFile> file);
  Result<Attempt> advance(Instant deadline, Interrupt interrupt);
  Result<Step> reach_hold();
  Result<Step> sit_down(LockFile& file);
  Result<Step> look_back(const LockFile& file, bool past_the_queue);
  Result<bool> is_joined(const LockFile& file) const;
  Result<bool> take_hold(LockFile& file) { return alone() ? file.try_hold() : file.try_share(); }
  Result<Step> confirm(LockFile& file, std::optional<Ticket> ticket, bool beside = false);
  Result<Step> get_in(LockFile& file, std::optional<Ticket> ticket, bool beside);
  Result<bool> must_move();
  Result<Attempt> move(Instant deadline, Interrupt interrupt);
  Step sleep_on(ByteRange byte, ByteWatch::For what);

  Result<Busy> describe_busy(LockFile& file);
  Status write_record(LockFile& file, const std::optional<HoldRecord>& last);
  void detach();

  // local_hold.cpp
  Result<Renewal> renew_kept();
  Result<Renewal> confirm_without_hold(const LockFile& file) const;
  Result<Renewal> extend_detached(LockFile& file, const FoundHold& hold, Instant deadline,
                                  Interrupt interrupt);
  Result<Renewal> renew_by_token(bool extend, Instant deadline, Interrupt interrupt);
  std::optional<StopRecord> read_order() const;
  Result<bool> rewrite(LockFile& file, const FoundHold& hold, Instant deadline, Interrupt interrupt,
                       const HoldRecord& record);
  Result<Released> end_hold();
  Result<Released> release_by_token(Instant deadline, Interrupt interrupt);
  Result<Released> ask_to_release(LockFile& file, Seat seat, Instant deadline, Interrupt interrupt) const;

  Result<bool> has_changed();
  Result<bool> may_overtake();
  bool is_behind() const;
  Instant next_look() const;
  Result<bool> is_open_to_us();
  void show_alive();
  void mark_overtaken();
  void watch_changes();
  static void leave(Place& place);

  const std::shared_ptr<const LockDirectory> directory_;
  const Markers markers_;
  const FenceClock fence_clock_;
  const Claim claim_;
  const std::string path_;
  Place place_;
  std::optional<Lease> lease_;
  Seat seat_ = k_alone;
  std::optional<std::string> joined_;  // the id of the hold that we have joined
  std::optional<Marker> completed_;
  HoldRecord record_;   // of our own hold
  bool stays_ = false;  // our hold, after our release
  bool stop_reported_ = false;
  bool release_reported_ = false;  // StopRequest::released
};

}  // namespace klock
