// SPDX-License-Identifier: MIT
#include "store/redis/outcome.hpp"

#include "store/redis/record.hpp"

#include <algorithm>

namespace klock::redis {
namespace {

constexpr Duration k_first_pause = Milliseconds(20);
constexpr Duration k_longest_pause = Milliseconds(500);

}  // namespace

const char* entry_state(const Claim& claim) {
  return claim.detached ? k_detached : claim.for_script ? k_script : k_run;
}

Result<Released> release_patiently(const std::function<Io<Released>()>& once, Instant deadline,
                                   Interrupt interrupt) {
  Duration pause = k_first_pause;
  for (;;) {
    Io<Released> released = once();
    if (released) return *released;
    const Fault& fault = released.error();
    const bool hopeless = fault.cause == Cause::interrupted || !may_pass(fault.error.kind);
    const Instant again = BootClock::now() + pause;
    if (hopeless || again >= deadline)
      return outcome_of<Released>(std::move(released).error(), Released::interrupted);
    if (wait_ready(-1, 0, again, interrupt) == Ready::interrupted) return Released::interrupted;
    pause = std::min(pause * 2, k_longest_pause);
  }
}

Io<Released> await_end(const std::function<Io<bool>()>& stands, Instant deadline, Interrupt interrupt) {
  for (Duration pause = k_first_pause;; pause = std::min(pause * 2, k_longest_pause)) {
    const Instant next = std::min(deadline, BootClock::now() + pause);
    if (wait_ready(-1, 0, next, interrupt) == Ready::interrupted) return Released::interrupted;
    KLOCK_TRY(it_stands, stands());
    if (!it_stands) return Released::done;
    if (BootClock::now() >= deadline)
      return fault(Cause::final, ErrorKind::system, "the process that keeps it does not give it up in time",
                   "it has been asked, and releases when its command has ended");
  }
}

}  // namespace klock::redis
