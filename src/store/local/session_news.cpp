// SPDX-License-Identifier: MIT
// The part of a session that sleeps: LocalSession::await_news.
#include "store/local/local_session.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace klock {
namespace {

// How often to look at the file where nothing wakes us.
constexpr std::chrono::seconds k_slice{1};
// As a waiter: whoever was before us when we fell asleep may be gone by now, but for a frozen one; then we
// have to see that the lock is open to us within a turn (k_turn), or the next one takes his before us. So
// only far behind more rarely.
constexpr std::chrono::milliseconds k_slice_behind{1500};
constexpr std::chrono::seconds k_longest_slice{15};
constexpr std::size_t k_far_behind = 16;
// How long a free lock waits for those before us, each: one that is stopped or swapped out would keep it for
// ever.
constexpr std::chrono::seconds k_turn{2};

bool drain(int fd) {
  alignas(inotify_event) std::array<char, 4096> events;
  bool any = false;
  while (read(fd, events.data(), events.size()) > 0) any = true;
  return any;
}

}  // namespace

// Not IN_MODIFY: each new waiter writes to the file. An order to stop also touches its times: IN_ATTRIB, as
// unlink does.
void LocalSession::watch_changes() {
  if (place_.changes || !place_.file) return;
  Fd changes(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (changes &&
      inotify_add_watch(changes.get(), path_.c_str(), IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) >= 0)
    place_.changes = std::move(changes);
}

// Something that renew() or attempt() would say for the first time.
Result<bool> LocalSession::has_changed() {
  if (!lease_) {
    KLOCK_TRY(moving, must_move());
    if (moving) return true;
    return may_overtake();
  }
  KLOCK_TRY(current, place_.file->is_current());
  if (!current) return true;
  if (stop_reported_ && release_reported_) return false;
  const auto stop = read_order();
  return stop && !(stop->request.released ? release_reported_ : stop_reported_);
}

// Whether those who run and those who wait before us leave room for us, so that we wait for a frozen waiter
// alone.
Result<bool> LocalSession::is_open_to_us() {
  const LockFile& file = *place_.file;
  KLOCK_TRY(kind, file.hold_kind());
  if (reservation(file, claim_.mode)) return false;
  KLOCK_TRY(joined, alone() ? file.is_joined() : file.is_joined(k_alone));
  if (joined) return false;
  if (!kind) return true;
  if (kind == ByteLock::exclusive || alone()) return false;
  KLOCK_TRY(before, file.tickets_before(*place_.ticket));
  for (const Ticket other : before) {
    const auto wait = read_wait(file, other);
    if (!wait || wait->mode == Mode::exclusive) return false;
  }
  return claim_.mode == Mode::shared || has_free_slot(file, claim_.slots);
}

// Those behind a frozen waiter take the lock that is open to them in their own order: each gives everybody
// before it the time of a turn, but to one that was overtaken only once. Exclusion is not touched: `hold`
// decides. The frozen one keeps its ticket and comes first once it runs again.
Result<bool> LocalSession::may_overtake() {
  place_.overtake_at = k_never;
  if (!place_.ticket) return false;
  show_alive();
  // What we, the first, wait for without a byte to sleep on.
  if (place_.cooldown && !reservation(*place_.file, claim_.mode)) return true;
  KLOCK_TRY(open, is_open_to_us());
  if (!open) {
    place_.idle.clear();
    return false;
  }
  if (place_.no_slot) return true;
  KLOCK_TRY(before, place_.file->tickets_before(*place_.ticket));
  const Instant now = BootClock::now();
  if (before != place_.idle) {
    place_.idle = std::move(before);
    place_.idle_since = now;
  }
  const auto turns = std::count_if(place_.idle.begin(), place_.idle.end(), [this](Ticket other) {
    const auto wait = read_wait(*place_.file, other);
    return !wait || !wait->overtaken;
  });
  if (!place_.idle.empty()) place_.overtake_at = place_.idle_since + k_turn * turns;
  place_.overtake = now >= place_.overtake_at;
  return place_.overtake;
}

// Whoever can read this runs again.
void LocalSession::show_alive() {
  auto mine = read_wait(*place_.file, *place_.ticket);
  if (!mine || !mine->overtaken) return;
  mine->overtaken = false;
  (void)write_wait(*place_.file, *mine);
}

// We took the lock before those: the next in the queue need not wait for them again. A touch wakes them
// should they run.
void LocalSession::mark_overtaken() {
  for (const Ticket other : place_.idle) {
    auto wait = read_wait(*place_.file, other);
    if (!wait || wait->overtaken) continue;
    wait->overtaken = true;
    (void)write_wait(*place_.file, *wait);
  }
  place_.file->touch();
}

bool LocalSession::is_behind() const {
  return !lease_ && place_.ahead > 0;
}

// When to look at the file though nothing wakes us.
Instant LocalSession::next_look() const {
  const Instant now = BootClock::now();
  if (!is_behind()) return now + k_slice;
  const auto far = static_cast<std::int64_t>(place_.ahead / k_far_behind);
  const auto rest = std::clamp<Duration>(k_slice_behind * far, k_slice_behind, k_longest_slice);
  return std::min(now + rest, place_.overtake_at);
}

Result<Wake> LocalSession::await_news(Instant until, Interrupt interrupt) {
  // The first two in the queue, as the second may become the first without waking. inotify instances are
  // scarce.
  if (lease_ || (place_.ticket && place_.ahead <= 1)) watch_changes();
  // After the watch is set, or a change just before it would be missed.
  bool look = place_.file != nullptr;
  for (;;) {
    if (look) {
      KLOCK_TRY(changed, has_changed());
      if (changed) return Wake::news;
      look = false;
    }
    const bool slices = place_.file && (is_behind() || !place_.changes);
    const Instant slice = slices ? std::min(until, next_look()) : until;
    std::array<pollfd, 3> fds{pollfd{interrupt.fd, POLLIN, 0},
                              pollfd{place_.watch ? place_.watch->event_fd() : -1, POLLIN, 0},
                              pollfd{place_.changes.get(), POLLIN, 0}};
    const int ready = poll(fds.data(), fds.size(), poll_timeout(slice));
    if (ready > 0) {
      if (fds[0].revents != 0) return Wake::interrupted;
      if (fds[1].revents != 0) return Wake::news;
      look = drain(place_.changes.get());
      if (look && !lease_) return Wake::news;  // the hold may end sooner than it said
    }
    const Instant now = BootClock::now();
    if (until != k_never && now >= until) return Wake::timeout;
    if (slices && now >= slice) look = true;
  }
}

}  // namespace klock
