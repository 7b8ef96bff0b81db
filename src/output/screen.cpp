// SPDX-License-Identifier: MIT
#include "output/screen.hpp"

#include "output/display_width.hpp"
#include "util/signal_set.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

namespace klock {
namespace {

// The alternate screen, no cursor, and no line that is too wide goes on in the next one.
constexpr const char* k_enter = "\033[?1049h\033[?25l\033[?7l";
constexpr const char* k_leave = "\033[0m\033[?7h\033[?25h\033[?1049l";
constexpr Duration k_patience = std::chrono::seconds(2);  // with a terminal that takes no more

// Another process's use of the terminal must not stop us when all that we want is to give it back.
void restore(const termios& before) {
  const Blocked blocked(only(SIGTTOU));
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

// Each line is written over the old one and what remains of that is cleared, so that nothing flickers. Where
// a line ends at the edge, clearing would take its last character away.
std::string compose(const std::vector<FrameLine>& lines, std::size_t width, bool colour) {
  std::string text = "\033[H";
  for (const FrameLine& line : lines) {
    if (&line != &lines.front()) text += "\r\n";
    const bool strong = line.strong && colour;
    text.append(strong ? "\033[7m" : "").append(line.text).append(strong ? "\033[0m" : "");
    if (display_width(line.text) < width) text += "\033[K";
  }
  return text;
}

}  // namespace

ScreenSize screen_size() {
  ScreenSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col != 0 && window.ws_row != 0)
    return {window.ws_col, window.ws_row};
  const char* const columns = getenv("COLUMNS");
  unsigned short width = 0;
  if (columns && std::from_chars(columns, columns + std::strlen(columns), width).ec == std::errc{} &&
      width != 0)
    size.width = width;
  return size;
}

// A descriptor of our own does not block, and leaves the one that others have too as it is. If it cannot be
// had, as after su, writing may block.
Screen::Screen()
    : own_output_(open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)),
      output_(own_output_ ? own_output_.get() : STDOUT_FILENO) {
  const char* const no_colour = getenv("NO_COLOR");
  colour_ = no_colour == nullptr || *no_colour == '\0';
}

Status Screen::enter() {
  if (!before_) {
    termios now{};
    if (tcgetattr(STDIN_FILENO, &now) != 0)
      return system_failure("cannot read the terminal's settings", errno);
    before_ = now;
  }
  termios raw = *before_;
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | IXOFF);  // Ctrl-S is no reason to stop
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return system_failure("cannot set the terminal", errno);
  return write(k_enter, BootClock::now() + k_patience, {});
}

void Screen::leave() {
  if (!before_) return;
  // Nobody is left to tell of a failure.
  static_cast<void>(write(k_leave, BootClock::now() + k_patience, {}));
  restore(*before_);
  before_.reset();
}

Status Screen::draw(const std::vector<FrameLine>& lines, Interrupt interrupt) {
  return write(compose(lines, screen_size().width, colour_), k_never, interrupt);
}

Status Screen::write(const std::string& text, Instant deadline, Interrupt interrupt) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t wrote = ::write(output_, rest.data(), rest.size());
    if (wrote >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(wrote));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_failure("cannot write to the terminal", errno);
    if (wait_ready(output_, POLLOUT, deadline, interrupt) != Ready::descriptor) return {};
  }
  return {};
}

Result<std::string> Screen::read_input() {
  std::array<char, 1024> bytes;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) return std::string(bytes.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) continue;
    return system_failure("the terminal is gone", got == 0 ? EIO : errno);
  }
}

}  // namespace klock
