// SPDX-License-Identifier: MIT
#include "commands/release.hpp"

namespace klock {
namespace {

constexpr Duration k_unleased_time = std::chrono::seconds(5);

}  // namespace

Release::End Release::release(HeldLock& lock, bool complete) {
  const auto ends = [&](End how, const char* what) {
    if (context_.say.verbose()) context_.say.explain(about(lock.name, what, context_.store->describe(), {}));
    return how;
  };
  lock.session->explain_end(how_, why_);
  if (lock.lost) {
    lock.session->note_lost(why_);
    return End::unknown;
  }
  const Instant now = BootClock::now();
  if (now >= lock.lease.deadline) {
    constexpr char k_ended[] = "the lease ended by itself before the release";
    lock.session->note_lost(k_ended);
    return complete ? unconfirmed(lock, complete, k_ended) : ends(End::unknown, k_ended);
  }
  const Instant limit = lock.lease.deadline == k_never ? now + k_unleased_time : lock.lease.deadline;
  for (;;) {
    const Interrupt interrupt{desk_.fd()};
    const auto released =
        complete ? lock.session->complete(limit, interrupt) : lock.session->release(limit, interrupt);
    if (!released)
      return unconfirmed(lock, complete, "the release could not be confirmed: " + released.error().what);
    if (*released == Released::done && lock.lease.joined) return ends(End::kept, "left to its holder");
    if (*released == Released::done) return ends(End::free, "released");
    if (*released != Released::interrupted) return ends(End::not_ours, "not released");
    if (gives_up()) return unconfirmed(lock, complete, "interrupted before the release was confirmed");
  }
}

Release::End Release::unconfirmed(const HeldLock& lock, bool complete, const std::string& why) const {
  std::string hint = lock.lease.deadline == k_never ? "" : "the lease ends by itself";
  if (complete)
    hint += std::string(hint.empty() ? "" : ", but ") +
            "the mark of --once may be missing: see 'klock once show'";
  context_.say.tell(about(lock.name, why, context_.store->describe(), hint));
  return End::unknown;
}

bool Release::gives_up() {
  bool give_up = false;
  while (const auto signal = desk_.take()) give_up |= ends_waiting(static_cast<int>(signal->ssi_signo));
  return give_up;
}

}  // namespace klock
