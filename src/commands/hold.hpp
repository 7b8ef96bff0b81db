// SPDX-License-Identifier: MIT
#pragma once

#include "commands/locks.hpp"
#include "config/settings.hpp"
#include "lease/lock_store.hpp"
#include "lease/renewer.hpp"
#include "output/message.hpp"
#include "supervise/job.hpp"
#include "supervise/signals.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// How the time under the locks ended.
struct HoldEnd {
  std::optional<int> wait_status;       // the command's; nullopt: it was not started
  std::optional<int> exec_error;        // errno, if it could not be
  StopCause stopped = StopCause::none;  // why klock ended it
  std::string lost;                     // why the lease was lost; "" if it was not
  std::optional<StopRequest> order;     // who ended the hold, or wanted to
  std::string lock;                     // the lock that `lost` or `order` is about
  int asked_to_end = 0;                 // the first INT, TERM, HUP or QUIT that klock got
};

// From the command's start to its end: passes signals on, keeps the leases alive, and has the command stopped
// when one of them is lost, somebody orders it, or its time is up. The renewal threads, one for each lock,
// start only when there is something for them to do, so that a short command does not pay for them; they are
// joined on return, and the locks' leases are up to date.
class Hold {
 public:
  // Tells something about a lock: its name, what, hint.
  using Teller = std::function<void(const std::string&, const std::string&, const std::string&)>;

  Hold(Job& job, Locks& locks, SignalDesk& desk, const Settings& settings, Teller tell);

  // Blocks until the command has ended and everything that had to die is dead. The command must have been
  // started with Job::start(). Errors: system; the job's destructor then stops the command.
  Result<HoldEnd> run();

 private:
  void start_renewing();
  void extend(std::size_t lock, Instant deadline);
  void on_signals();
  void on_renewal_events();
  void on(HeldLock& lock, const Lost& lost);
  void on(HeldLock& lock, const StopAsked& asked);
  void on(HeldLock& lock, const Trouble& trouble);
  void on(HeldLock& lock, const Recovered&);
  void on(HeldLock& lock, const Reclaimed&);
  Result<bool> on_job_event();
  HoldEnd finish();

  Job& job_;
  SignalDesk& desk_;
  std::vector<HeldLock>& locks_;
  const Settings& settings_;
  const Teller tell_;
  std::vector<std::atomic<Instant::rep>> deadlines_;  // one for each lock; written by its renewal thread
  std::vector<std::unique_ptr<Renewer>> renewers_;    // likewise
  Instant next_thaw_;
  Instant renewing_from_;  // k_never once the threads run
  HoldEnd end_;
};

}  // namespace klock
