// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "util/exit_status.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration k_default_patience = seconds(30);
constexpr Duration k_first_look = milliseconds(20);
constexpr Duration k_longest_look = milliseconds(250);
constexpr const char* k_no_answer_hint =
    "wait longer with -w, or remove its lock with --now: the command may then overlap with the next one";

class ForcedRelease {
 public:
  ForcedRelease(const ForceReleaseRequest& request, const Context& context, LockName lock)
      : request_(request),
        context_(context),
        store_(*context.store),
        lock_(std::move(lock)),
        order_{who_am_i(), request.reason} {}

  // Everybody is asked before anybody is waited for: -w bounds the whole.
  Result<int> run() {
    KLOCK_CHECK(find_holders());
    if (holders_.empty()) return worst_;
    if (!request_.yes && !confirmed()) {
      no("nothing was done", {});
      return worst_;
    }
    std::vector<Holder> asked;
    for (const Holder& holder : holders_) {
      if (request_.now || request_.stale) {
        KLOCK_CHECK(remove(holder));
      } else {
        KLOCK_TRY(answer, store_.ask_stop(lock_, holder, order_, store_deadline(context_.settings)));
        if (answer == Eviction::done)
          asked.push_back(holder);
        else
          tell_outcome(answer, holder);
      }
    }
    KLOCK_CHECK(await_end(std::move(asked)));
    return worst_;
  }

 private:
  // Those to be ended: all that hold it, or the one with --id, less those that have to be refused.
  Status find_holders() {
    KLOCK_TRY(state, store_.inspect(lock_, store_deadline(context_.settings), {}));
    if (state.occupancy == Occupancy::free)
      no("nobody holds it", {});
    else if (state.holders.empty())
      no("it changed hands while we looked", "try again");
    several_ = state.holders.size() > 1;
    for (Holder& holder : state.holders) {
      const char* how = holder.cooldown ? "kept taken by --min-hold after " : "held by ";
      tell(how + describe_holder(holder) + (holder.id.empty() ? "" : ", id " + holder.id), {});
      if (!request_.id || holder.id == *request_.id) holders_.push_back(std::move(holder));
    }
    if (holders_.empty() && !state.holders.empty())
      no("held by somebody else by now, not by id " + *request_.id, {});
    std::erase_if(holders_, [&](const Holder& holder) { return is_refused(holder); });
    return {};
  }

  bool is_refused(const Holder& holder) {
    if (request_.now) return false;
    if (holder.cooldown) {
      no(of(holder) + "nobody runs; --min-hold keeps it taken", "--now frees it at once");
    } else if (request_.stale) {
      if (provably_dead(holder.who, lock_.name, holder.id)) return false;
      no(of(holder) + "not proven dead: its process may still live", without_stale(holder));
    } else {
      if (!holder.foreign) return false;
      tell_outcome(Eviction::foreign, holder);
    }
    return true;
  }

  static const char* without_stale(const Holder& holder) {
    if (holder.foreign) return "--now removes the lock of another client at once";
    return is_process(holder) ? "without --stale its holder is asked to stop"
                              : "without --stale it is released";
  }

  // A hold for maintenance has none.
  static bool is_process(const Holder& holder) { return holder.who.pid > 0; }

  Status remove(const Holder& holder) {
    const auto removed = store_.remove(lock_, holder, order_, store_deadline(context_.settings));
    if (!removed && removed.error().kind == ErrorKind::system) {
      // One that does not let go is no reason to leave the others.
      tell(of(holder) + removed.error().what, removed.error().hint);
      worst_ = std::max<int>(worst_, k_exit_system);
      return {};
    }
    if (!removed) return tl::unexpected(removed.error());
    tell_outcome(*removed, holder);
    if (*removed != Eviction::done || !holder.foreign) return {};
    if (const auto woken = store_.wake_others(lock_, holder, store_deadline(context_.settings)); !woken)
      context_.say.explain(about(
          lock_.name, "removed, but those of its own kind who wait were not woken: " + woken.error().what,
          store_.describe(), woken.error().hint));
    return {};
  }

  // The holders' klocks stop their commands and release; only then is the job done.
  Status await_end(std::vector<Holder> asked) {
    // What the files say about waiting is meant for locks.
    const auto& wait = context_.settings.wait;
    const Duration patience =
        wait.origin == Origin::flag ? wait.value.value_or(k_default_patience) : k_default_patience;
    const Instant limit = BootClock::now() + patience;
    for (Duration pause = k_first_look; !asked.empty(); pause = std::min(2 * pause, k_longest_look)) {
      const auto state = store_.inspect(lock_, store_deadline(context_.settings), {});
      const bool is_over = BootClock::now() >= limit;
      if (!state && (is_over || !may_pass(state.error().kind))) {
        for (const Holder& holder : asked)
          tell(of(holder) + "what came of the request to stop cannot be seen; it stands", {});
        return tl::unexpected(state.error());
      }
      std::erase_if(asked, [&](const Holder& holder) {
        if (!state || stands(*state, holder)) return false;
        tell(of(holder) + "the hold has ended", {});
        return true;
      });
      if (asked.empty()) break;
      if (is_over) {
        for (const Holder& holder : asked)
          tell(of(holder) + "its holder has not let go in time; the request to stop stands",
               k_no_answer_hint);
        worst_ = k_exit_busy;
        break;
      }
      wait_ready(-1, 0, std::min(limit, BootClock::now() + pause), {});
    }
    return {};
  }

  static bool stands(const LockState& state, const Holder& holder) {
    return std::any_of(state.holders.begin(), state.holders.end(), [&](const Holder& now) {
      // What was shown may have been a grant, which had no fence yet.
      return now.id == holder.id && (holder.fence == 0 || now.fence == holder.fence) && !now.cooldown;
    });
  }

  void tell_outcome(Eviction outcome, const Holder& holder) {
    switch (outcome) {
      case Eviction::done:
        tell(of(holder) + "removed", {});
        break;
      case Eviction::gone:
        tell(of(holder) + "ended by itself meanwhile", {});
        break;
      case Eviction::changed:
        no(of(holder) + "somebody else holds it by now", "look again: klock status " + lock_.name);
        break;
      case Eviction::foreign:
        no(of(holder) + "held by another client, which can't be asked to stop",
           "--now removes its lock at once");
        break;
    }
  }

  bool confirmed() const {
    const std::string question = this->question() + " [y/N] ";
    if (write(STDERR_FILENO, question.data(), question.size()) < 0) return false;
    char answer[16]{};
    const ssize_t got = read(STDIN_FILENO, answer, sizeof answer);
    return got > 0 && (answer[0] == 'y' || answer[0] == 'Y');
  }

  std::string question() const {
    const std::size_t count = holders_.size();
    const bool one = count == 1;
    const std::string holds = one ? "this hold" : "these " + std::to_string(count) + " holds";
    if (request_.stale) return "remove " + holds + "?";
    const bool idle = std::none_of(holders_.begin(), holders_.end(), [](const Holder& holder) {
      return holder.foreign || (is_process(holder) && !holder.cooldown);
    });
    if (request_.now)
      return "remove " + holds + " at once?" +
             (idle  ? ""
              : one ? " its command may overlap with the next one"
                    : " their commands may overlap with the next ones");
    if (idle) return "release " + holds + "?";
    return one ? "ask the holder to stop its command?"
               : "ask these " + std::to_string(count) + " holders to stop their commands?";
  }

  // Which of several.
  std::string of(const Holder& holder) const {
    return several_ && !holder.id.empty() ? "id " + holder.id + ": " : std::string();
  }
  void tell(const std::string& what, const std::string& hint) const {
    context_.say.tell(about(lock_.name, what, store_.describe(), hint));
  }
  void no(const std::string& what, const std::string& hint) {
    tell(what, hint);
    worst_ = std::max<int>(worst_, k_exit_no);
  }

  const ForceReleaseRequest& request_;
  const Context& context_;
  LockStore& store_;
  const LockName lock_;
  const StopRequest order_;
  std::vector<Holder> holders_;
  bool several_ = false;  // hold it
  int worst_ = k_exit_ok;
};

}  // namespace

int force_release(const ForceReleaseRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, request.name, context.error());
  const auto fail = [&](const Error& error) {
    return report_failure(context->say, request.name, context->store->describe(), error);
  };
  auto lock = make_lock_name(context->settings.prefix.value, request.name, request.key);
  if (!lock) return fail(lock.error());
  if (request.now && request.stale)
    return fail({ErrorKind::usage, "--now and --stale exclude each other",
                 "--stale removes only what is proven dead"});
  if (!request.yes && (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0))
    return fail({ErrorKind::usage, "there is no terminal to ask on",
                 "add --yes, and --id to name the hold you mean"});
  const auto status = ForcedRelease(request, *context, std::move(*lock)).run();
  return status ? *status : fail(status.error());
}

}  // namespace klock
