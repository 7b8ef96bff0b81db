// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "commands/waiting.hpp"
#include "output/screen.hpp"
#include "output/stdout.hpp"
#include "output/watch_frame.hpp"
#include "supervise/suspension.hpp"
#include "supervise/terminal.hpp"
#include "util/exit_status.hpp"
#include "util/interrupt_set.hpp"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace klock {
namespace {

// The bytes of one key may arrive apart; an ESC after which nothing comes for so long is the key of that
// name.
constexpr Duration k_escape_patience = std::chrono::milliseconds(100);

// After a look that a key has ended: keys that come quickly must not make the store begin again and again.
constexpr Duration k_quiet = std::chrono::milliseconds(200);

WatchPicture picture_of(std::vector<LockState> states, const Context& context) {
  return {std::move(states), context.store->describe(), wall_ms(), 0, {}};
}

// The live screen. Whatever comes first ends a look at the store: a key must not wait for a slow one.
class Watch {
 public:
  Watch(const WatchRequest& request, const Context& context, SignalDesk& desk)
      : request_(request), context_(context), desk_(desk) {
    view_.sort = request.sort;
  }

  // Returns when a key or a signal ends it. The terminal is given back when this object goes.
  Result<Interruption> run() {
    auto states = context_.store->list(request_.pattern, store_deadline(context_.settings), {desk_.fd()});
    if (const int signal = signal_to_end()) return interruption(signal);
    if (!states) return tl::unexpected(std::move(states).error());
    picture_ = picture_of(*std::move(states), context_);
    next_look_ = BootClock::now() + request_.interval;
    KLOCK_CHECK(listen());
    for (;;) {
      if (const int signal = signal_to_end()) return interruption(signal);
      // From the background we stop as whoever wants to use the terminal from there, and look at the signals
      // before the next try: one that ends us may have come with the SIGCONT.
      if (!shown_ && !in_foreground() && suspend_like(SIGTTOU)) continue;
      KLOCK_CHECK(show());
      KLOCK_TRY(go_on, wait_and_act());
      if (!go_on) return Interruption{k_exit_ok};
    }
  }

 private:
  Status listen() {
    desk_.watch_all();
    KLOCK_TRY(suspension, Suspension::open());
    suspension_.emplace(std::move(suspension));
    for (InterruptSet* set : {&signals_, &keys_and_signals_}) {
      KLOCK_CHECK(set->add(desk_.fd()));
      if (suspension_->fd() >= 0) KLOCK_CHECK(set->add(suspension_->fd()));
    }
    return keys_and_signals_.add(STDIN_FILENO);
  }

  // 0: none.
  int signal_to_end() {
    for (;;) {
      while (const auto info = desk_.take()) {
        const int signal = static_cast<int>(info->ssi_signo);
        if (ends_waiting(signal)) return signal;
        // Others may have had the terminal meanwhile.
        if (signal == SIGCONT) shown_ = false;
      }
      if (!suspension_ || !suspension_->take()) return 0;
      screen_.leave();
      shown_ = false;
      suspension_->stop();
    }
  }

  Status show() {
    if (!shown_) KLOCK_CHECK(screen_.enter());
    shown_ = true;
    const ScreenSize size = screen_size();
    const WatchFrame frame = watch_frame(picture_, view_, size.width, size.height);
    view_.top = frame.top;
    reach_ = frame.reach;
    return screen_.draw(frame.lines, keys_and_signals_.interrupt());
  }

  // False: a key asks to leave.
  Result<bool> wait_and_act() {
    const bool within_key = !input_.empty();
    const Instant until = within_key ? BootClock::now() + k_escape_patience : next_look_;
    switch (wait_ready(STDIN_FILENO, POLLIN, until, signals_.interrupt())) {
      case Ready::interrupted:
        return true;
      case Ready::descriptor: {
        KLOCK_TRY(typed, screen_.read_input());
        input_ += typed;
        return heed_keys(false);
      }
      case Ready::timeout:
        break;
    }
    if (within_key) return heed_keys(true);
    KLOCK_CHECK(look());
    return true;
  }

  bool heed_keys(bool complete) {
    while (const auto key = take_key(input_, complete))
      if (!press(view_, *key, reach_)) return false;
    return true;
  }

  Status look() {
    const Interrupt interrupt = keys_and_signals_.interrupt();
    auto states = context_.store->list(request_.pattern, store_deadline(context_.settings), interrupt);
    if (states) {
      picture_ = picture_of(*std::move(states), context_);
    } else {
      if (wait_ready(-1, 0, Instant{}, interrupt) == Ready::interrupted) {
        next_look_ = BootClock::now() + k_quiet;
        return {};
      }
      const ErrorKind kind = states.error().kind;
      if (!may_pass(kind) && kind != ErrorKind::system) return tl::unexpected(std::move(states).error());
      if (picture_.failed_wall_ms == 0) picture_.failed_wall_ms = wall_ms();
      picture_.failure = states.error().what;
    }
    next_look_ = BootClock::now() + request_.interval;
    return {};
  }

  const WatchRequest& request_;
  const Context& context_;
  SignalDesk& desk_;
  std::optional<Suspension> suspension_;
  InterruptSet signals_;
  InterruptSet keys_and_signals_;
  Screen screen_;
  bool shown_ = false;
  WatchView view_;
  WatchReach reach_;
  WatchPicture picture_;
  Instant next_look_{};
  std::string input_;  // the beginning of a key
};

int watch_live(const WatchRequest& request) {
  auto desk = SignalDesk::open();
  if (!desk) return report_failure(request.flags, "watch", desk.error());
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, "watch", context.error());
  const auto end = Watch(request, *context, *desk).run();
  if (!end) return report_failure(context->say, "watch", context->store->describe(), end.error());
  if (end->die_of != 0) die_of(end->die_of);
  return end->status;
}

int watch_once(const WatchRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, "watch", context.error());
  auto states = context->store->list(request.pattern, store_deadline(context->settings), {});
  if (!states) return report_failure(context->say, "watch", context->store->describe(), states.error());
  WatchView view;
  view.sort = request.sort;
  const WatchPicture picture = picture_of(*std::move(states), *context);
  if (const auto written = write_stdout(watch_text(picture, view, screen_size().width)); !written)
    return report_failure(context->say, "watch", {}, written.error());
  return k_exit_ok;
}

}  // namespace

int watch(const WatchRequest& request) {
  if (request.once) return watch_once(request);
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) return watch_live(request);
  return report_failure(request.flags, "watch",
                        {ErrorKind::usage, "standard input and output are not a terminal",
                         "--once prints the locks once, 'klock list' too"});
}

}  // namespace klock
