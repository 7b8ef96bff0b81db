// SPDX-License-Identifier: MIT
#pragma once

#include "commands/hold.hpp"

namespace klock {

// What the check of --unless says once the lock is held.
enum class Answer {
  work_is_done,  // skip the command
  not_done,      // run it
  none           // it could not be asked, or the hold ended meanwhile: the command must not run
};

Answer answer_of(const HoldEnd& check);

}  // namespace klock
