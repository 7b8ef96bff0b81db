// SPDX-License-Identifier: MIT
#include "lease/renewer.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration k_first_pause = milliseconds(20);
constexpr Duration k_longest_pause = milliseconds(500);
constexpr Duration k_after_error = milliseconds(100);
constexpr Duration k_noticeable = seconds(1);

void raise_event(int fd) {
  eventfd_write(fd, 1);
}

// One stalled connection must not use up the whole lease: several tries have to fit.
Instant try_deadline(Instant now, Instant deadline, Duration ttl) {
  const Duration longest = std::clamp<Duration>(ttl / 6, milliseconds(50), seconds(2));
  return std::min(deadline, now + longest);
}

std::string seconds_text(Duration value) {
  return std::to_string(std::chrono::round<seconds>(value).count()) + " s";
}

}  // namespace

Renewer::Renewer(LockSession& session, Lease lease, Duration ttl, std::function<void(Instant)> on_extended,
                 WhenAsked when_asked)
    : session_(session),
      lease_(lease),
      ttl_(ttl),
      on_extended_(std::move(on_extended)),
      when_asked_(when_asked) {}

Renewer::~Renewer() {
  stop();
}

Status Renewer::start() {
  stop_requested_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  events_ready_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_requested_ || !events_ready_) return system_failure("cannot prepare the renewal thread", errno);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& fault) {
    return system_failure("cannot start the renewal thread", fault.code().value());
  }
  return {};
}

void Renewer::stop() {
  // Whoever froze us before the thread began: the first renewal is overdue.
  if (!stop_requested_) note_awake(BootClock::now(), first_due());
  if (!thread_.joinable()) return;
  raise_event(stop_requested_.get());
  thread_.join();
}

std::vector<RenewalEvent> Renewer::take_events() {
  const Locked locked(mutex_);
  eventfd_t count = 0;
  eventfd_read(events_ready_.get(), &count);
  return std::exchange(events_, {});
}

void Renewer::report(RenewalEvent event) {
  if (ends_only_ && !std::holds_alternative<Lost>(event) && !std::holds_alternative<StopAsked>(event)) return;
  const Locked locked(mutex_);
  events_.push_back(std::move(event));
  raise_event(events_ready_.get());
}

// Until it is time to renew or to look; false: interrupted.
bool Renewer::rest(Instant due) {
  const Interrupt interrupt{stop_requested_.get()};
  if (in_trouble_) return wait_ready(-1, 0, due, interrupt) != Ready::interrupted;
  const auto wake = session_.await_news(due, interrupt);
  if (wake) return *wake != Wake::interrupted;
  // Perhaps the connection is gone: find out by renewing, but never in a tight loop.
  const Instant soon = std::min(due, BootClock::now() + k_after_error);
  return wait_ready(-1, 0, soon, interrupt) != Ready::interrupted;
}

// Counted from when the lease was asked for: the answer may have been slow, and it may have been renewed
// before we got it.
Instant Renewer::first_due() const {
  return due_from(lease_.joined ? lease_.acquired_at : lease_.deadline - ttl_);
}

// An ancestor's lease has a ttl of its own, which its holder renews: what is left of it is what counts.
Instant Renewer::due_from(Instant confirmed) const {
  if (lease_.deadline == k_never) return k_never;
  if (!lease_.joined) return confirmed + ttl_ / 3;
  return confirmed + std::max<Duration>((lease_.deadline - confirmed) / 3, k_first_pause);
}

void Renewer::note_awake(Instant now, Instant due) {
  const bool late = due != k_never && now - due > k_noticeable && !in_trouble_;
  overslept_ = late ? now - due : Duration::zero();
}

std::string Renewer::why_expired() const {
  if (overslept_ == Duration::zero()) return "it could not be renewed in time";
  return "klock was suspended for " + seconds_text(overslept_) + ", longer than the lease";
}

void Renewer::run() {
  Instant due = first_due();
  Duration pause = k_first_pause;
  for (;;) {
    const bool interrupted = !rest(due);
    const Instant now = BootClock::now();
    note_awake(now, due);
    if (interrupted) return;
    // Before anything else: whoever was suspended or frozen must not believe that it still holds.
    if (now >= lease_.deadline) {
      report(Lost{why_expired(), std::nullopt, std::nullopt});
      return;
    }
    if (!renew_once(now)) return;
    if (in_trouble_) {
      due = std::min(BootClock::now() + pause, lease_.deadline);
      pause = std::min(2 * pause, k_longest_pause);
    } else {
      due = due_from(now);
      pause = k_first_pause;
    }
  }
}

// False when there is nothing more to renew.
bool Renewer::renew_once(Instant now) {
  auto renewal = session_.renew(try_deadline(now, lease_.deadline, ttl_), Interrupt{stop_requested_.get()});
  if (!renewal) {
    if (!std::exchange(in_trouble_, true)) report(Trouble{std::move(renewal).error(), lease_.deadline});
    return true;
  }
  if (std::holds_alternative<Interrupted>(*renewal)) return false;
  if (auto* gone = std::get_if<Gone>(&*renewal)) {
    report(Lost{"its record is gone from the store", std::move(gone->removed), std::nullopt});
    return false;
  }
  if (auto* other = std::get_if<NotMine>(&*renewal)) {
    report(Lost{"somebody else holds it now", std::move(other->removed), std::move(other->holder)});
    return false;
  }
  auto& renewed = std::get<Renewed>(*renewal);
  lease_.deadline = renewed.deadline;
  on_extended_(renewed.deadline);
  if (std::exchange(in_trouble_, false)) report(Recovered{});
  if (renewed.reclaimed) report(Reclaimed{});
  if (!renewed.stop) return true;
  // Asked once more, by its token it may still be released at once.
  if (!std::exchange(asked_, true) || renewed.stop->released) report(StopAsked{std::move(*renewed.stop)});
  return when_asked_ == WhenAsked::go_on;
}

}  // namespace klock
