// SPDX-License-Identifier: MIT
#include "commands/waiting_line.hpp"

#include "config/duration.hpp"
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "util/wall_time.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration k_silent = milliseconds(500);
constexpr std::string_view k_clear_line = "\r\033[K";

void draw(std::string_view text) {
  // A lost status line is no reason to end a wait.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
}

// For a line that is drawn again and again and has to fit.
std::string brief(const Holder& holder) {
  if (holder.foreign) return describe_holder(holder);
  std::string text = describe_person(holder.who);
  const std::string since = holder.since_wall_ms > 0 ? local_time(holder.since_wall_ms) : std::string();
  constexpr std::size_t k_date = 11;
  const bool today = holder.held && *holder.held < std::chrono::hours(24) && since.size() > k_date;
  if (!since.empty()) text += " since " + (today ? since.substr(k_date) : since);
  if (const std::string left = unrenewed_time_left(holder); !left.empty()) text += ", " + left;
  if (!holder.who.message.empty()) text += ": " + escape_text(holder.who.message, 500);
  return text;
}

std::string waited_for(const Busy& busy, bool on_terminal) {
  if (busy.cooldown) return "the end of --min-hold";
  if (!busy.holder) return "an unknown holder";
  return on_terminal ? brief(*busy.holder) : describe_holder(*busy.holder);
}

}  // namespace

WaitingLine::WaitingLine(const Messenger& say, std::string name, std::string store, Instant since)
    : say_(say),
      name_(std::move(name)),
      store_(std::move(store)),
      since_(since),
      on_terminal_(!say.quiet() && isatty(STDERR_FILENO) == 1) {}

WaitingLine::~WaitingLine() {
  if (shown_) draw(k_clear_line);
}

Instant WaitingLine::operator()(const Busy& busy) {
  if (!busy.why_polling.empty() && !std::exchange(polling_told_, true)) {
    if (std::exchange(shown_, false)) draw(k_clear_line);
    say_.tell(about(name_, busy.why_polling + ", so klock looks again and again until it is free", store_,
                    "klock doctor tells which rights are missing"));
  }
  const std::string holder = waited_for(busy, on_terminal_);
  if (!on_terminal_) {
    const std::string& id = busy.holder ? busy.holder->id : holder;
    if (say_.verbose() && id != last_holder_)
      say_.explain(about(name_, "waiting for " + holder + ", " + std::to_string(busy.ahead) + " before us",
                         store_, {}));
    last_holder_ = id;
    return k_never;
  }
  const Instant now = BootClock::now();
  if (now - since_ < k_silent) return since_ + k_silent;
  const auto waited = std::chrono::floor<seconds>(now - since_);
  std::string line = "klock: " + escape_text(name_) + ": waiting " + format_duration(waited) + ", position " +
                     std::to_string(busy.ahead + 1) + ": " + holder;
  std::size_t width = std::min(line.size(), columns());
  while (width > 0 && width < line.size() && (static_cast<unsigned char>(line[width]) & 0xc0) == 0x80)
    --width;
  draw(std::string(k_clear_line) + line.substr(0, width));
  shown_ = true;
  return now + seconds(1);
}

}  // namespace klock
