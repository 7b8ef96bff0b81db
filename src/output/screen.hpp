// SPDX-License-Identifier: MIT
#pragma once

#include "output/watch_frame.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"
#include "util/result.hpp"

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// Columns and lines of the terminal on standard output; else of COLUMNS; else 80 x 24.
struct ScreenSize {
  std::size_t width = 80;
  std::size_t height = 24;
};
ScreenSize screen_size();

// The terminal on standard input and output as a whole screen: the alternate one, without a cursor, each key
// read at once and not echoed. Ctrl-C and the like still send their signals. It is given back by leave() and
// by the destructor. One thread. Precondition: both are terminals, and this process is in the foreground.
class Screen {
 public:
  Screen();
  ~Screen() { leave(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Takes the terminal; again after it was given back, or after others had it while we were stopped. Errors:
  // system.
  Status enter();
  // Gives it back as it was; at once, even if nobody reads what is written to it. Does nothing if it was not
  // taken.
  void leave();

  // Shows the lines in one write. A terminal that takes no more is waited for until the interrupt is raised:
  // then a part is shown. Errors: system; a terminal that is gone is one.
  Status draw(const std::vector<FrameLine>& lines, Interrupt interrupt);

  // What was typed, at least a byte; blocks if there is nothing. Errors: system; a terminal that is gone is
  // one.
  Result<std::string> read_input();

 private:
  Status write(const std::string& text, Instant deadline, Interrupt interrupt);

  Fd own_output_;
  int output_;
  bool colour_;
  std::optional<termios> before_;
};

}  // namespace klock
