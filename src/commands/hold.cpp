// SPDX-License-Identifier: MIT
#include "commands/hold.hpp"

#include "config/duration.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Shorter runs need neither a renewal nor a watch for orders.
constexpr Duration k_settled = seconds(1);
constexpr Duration k_start_again = milliseconds(100);
// How long a frozen guard can keep us from seeing the command's end.
constexpr Duration k_thaw = seconds(5);

}  // namespace

Hold::Hold(Job& job, Locks& locks, SignalDesk& desk, const Settings& settings, Teller tell)
    : job_(job),
      desk_(desk),
      locks_(locks.held()),
      settings_(settings),
      tell_(std::move(tell)),
      deadlines_(locks_.size()),
      next_thaw_(BootClock::now() + k_thaw),
      renewing_from_(k_never) {
  for (std::size_t i = 0; i < locks_.size(); ++i) {
    HeldLock& lock = locks_[i];
    deadlines_[i] = lock.lease.deadline.time_since_epoch().count();
    renewers_.push_back(std::make_unique<Renewer>(*lock.session, lock.lease, settings.ttl.value,
                                                  [this, i](Instant deadline) { extend(i, deadline); }));
    renewing_from_ =
        std::min({renewing_from_, renewers_[i]->first_due(), lock.lease.acquired_at + k_settled});
  }
}

Result<HoldEnd> Hold::run() {
  std::vector<pollfd> fds(2 + renewers_.size());
  for (;;) {
    fds[0] = {desk_.fd(), POLLIN, 0};
    fds[1] = {job_.event_fd(), POLLIN, 0};
    for (std::size_t i = 0; i < renewers_.size(); ++i) fds[2 + i] = {renewers_[i]->event_fd(), POLLIN, 0};
    if (poll(fds.data(), fds.size(), poll_timeout(std::min(renewing_from_, next_thaw_))) < 0 &&
        errno != EINTR)
      return system_failure("cannot wait for the command", errno);
    if (fds[0].revents != 0) on_signals();
    if (std::any_of(fds.begin() + 2, fds.end(), [](const pollfd& fd) { return fd.revents != 0; }))
      on_renewal_events();
    if (fds[1].revents != 0) {
      KLOCK_TRY(ended, on_job_event());
      if (ended) return finish();
    }
    const Instant now = BootClock::now();
    if (now >= renewing_from_) start_renewing();
    if (now >= next_thaw_) {
      job_.thaw_guard();
      next_thaw_ = now + k_thaw;
    }
  }
}

void Hold::start_renewing() {
  renewing_from_ = k_never;
  for (const auto& renewer : renewers_)
    // Out of threads: that may pass, and the guard keeps the deadline meanwhile.
    if (!renewer->running() && !renewer->start()) renewing_from_ = BootClock::now() + k_start_again;
}

// The guard gets the earliest deadline. Two threads may be here at once, and the slower one write what is
// out of date already: so each looks again after it has written.
void Hold::extend(std::size_t lock, Instant deadline) {
  deadlines_[lock] = deadline.time_since_epoch().count();
  const auto earliest = [this] { return std::min_element(deadlines_.begin(), deadlines_.end())->load(); };
  Instant::rep told = 0;
  do {
    told = earliest();
    job_.extend(Instant(Duration(told)));
  } while (told != earliest());
}

void Hold::on_signals() {
  while (const auto signal = desk_.take()) {
    const int number = static_cast<int>(signal->ssi_signo);
    if (end_.asked_to_end == 0 && asks_to_end(number)) end_.asked_to_end = number;
    job_.forward(*signal);
  }
}

void Hold::on_renewal_events() {
  for (std::size_t i = 0; i < renewers_.size(); ++i)
    for (const RenewalEvent& event : renewers_[i]->take_events())
      std::visit([&](const auto& one) { on(locks_[i], one); }, event);
}

void Hold::on(HeldLock& lock, const Lost& lost) {
  lock.lost = true;
  const std::string why = lost.why + (lost.now ? " (" + describe_holder(*lost.now) + ")" : "");
  if (end_.lost.empty() && !end_.order) {
    end_.lost = why;
    end_.lock = lock.name;
    end_.order = lost.removed;
  }
  if (settings_.on_lost.value == OnLost::stop) return job_.stop(StopCause::lost);
  tell_(lock.name, "the lease is lost: " + why + "; the command runs on (--on-lost warn)", {});
}

void Hold::on(HeldLock& lock, const StopAsked& asked) {
  if (!end_.order && end_.lost.empty()) {
    end_.order = asked.request;
    end_.lock = lock.name;
  }
  job_.stop(StopCause::forced);
}

void Hold::on(HeldLock& lock, const Trouble& trouble) {
  const Duration left = std::max<Duration>(
      std::chrono::floor<milliseconds>(trouble.deadline - BootClock::now()), Duration::zero());
  tell_(lock.name, "the lease can't be renewed just now: " + trouble.error.what,
        settings_.on_lost.value == OnLost::stop
            ? "trying again; without success the command is dead in " + format_duration(left)
            : "trying again");
}

void Hold::on(HeldLock& lock, const Recovered&) {
  tell_(lock.name, "the lease is renewed again", {});
}

void Hold::on(HeldLock& lock, const Reclaimed&) {
  tell_(lock.name, "its record had vanished from the store and was taken back; no klock held it in between",
        {});
}

// True when the command has ended.
Result<bool> Hold::on_job_event() {
  for (;;) {
    KLOCK_TRY(event, job_.next_event());
    if (!event) return false;
    if (const auto* failed = std::get_if<CommandNotStarted>(&*event)) {
      end_.exec_error = failed->error;
      return true;
    }
    if (const auto* ended = std::get_if<CommandEnded>(&*event)) {
      end_.wait_status = ended->wait_status;
      end_.stopped = ended->stopped;
      return true;
    }
  }
}

HoldEnd Hold::finish() {
  for (const auto& renewer : renewers_) renewer->stop();
  on_renewal_events();
  std::size_t first = 0;  // to expire
  for (std::size_t i = 0; i < renewers_.size(); ++i) {
    locks_[i].lease.deadline = renewers_[i]->deadline();
    if (locks_[i].lease.deadline < locks_[first].lease.deadline) first = i;
  }
  // Where the guard keeps the deadline, a command that it did not stop ended in time, however late we hear of
  // it.
  const bool unwatched =
      settings_.on_lost.value == OnLost::warn && BootClock::now() >= locks_[first].lease.deadline;
  if (end_.lost.empty() && (end_.stopped == StopCause::deadline || unwatched)) {
    end_.lost = renewers_[first]->why_expired();
    end_.lock = locks_[first].name;
    locks_[first].lost = true;
  }
  return std::move(end_);
}

}  // namespace klock
