// SPDX-License-Identifier: MIT
#pragma once

#include "lease/acquirer.hpp"
#include "output/message.hpp"

#include <string>

namespace klock {

// Shows on a terminal whom we wait for: nothing for half a second, then one line that is kept up to date and
// removed in the end. Off the terminal it says so once a holder, and only under -v. That we have to look
// again and again is said once.
class WaitingLine {
 public:
  WaitingLine(const Messenger& say, std::string name, std::string store, Instant since);
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // A WaitObserver.
  Instant operator()(const Busy& busy);

 private:
  const Messenger& say_;
  const std::string name_;
  const std::string store_;
  const Instant since_;
  const bool on_terminal_;
  bool shown_ = false;
  bool polling_told_ = false;
  std::string last_holder_;
};

}  // namespace klock
