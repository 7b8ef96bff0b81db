// SPDX-License-Identifier: MIT
#include "commands/check.hpp"

#include "util/exit_status.hpp"

#include <sys/wait.h>

namespace klock {

Answer answer_of(const HoldEnd& check) {
  const bool undisturbed =
      check.stopped == StopCause::none && check.lost.empty() && !check.order && check.asked_to_end == 0;
  if (!undisturbed || !check.wait_status || !WIFEXITED(*check.wait_status)) return Answer::none;
  switch (WEXITSTATUS(*check.wait_status)) {
    case 0:
      return Answer::work_is_done;
    case k_exit_cannot_execute:
    case k_exit_not_found:
      return Answer::none;
    default:
      return Answer::not_done;
  }
}

}  // namespace klock
