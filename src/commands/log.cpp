// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "lease/name_pattern.hpp"
#include "output/event_text.hpp"
#include "output/screen.hpp"
#include "output/stdout.hpp"
#include "output/timeline.hpp"
#include "util/exit_status.hpp"
#include "util/interrupt.hpp"

#include <algorithm>

namespace klock {
namespace {

constexpr Duration k_look = std::chrono::milliseconds(500);  // --follow

class Log {
 public:
  Log(const LogRequest& request, const Context& context) : request_(request), context_(context) {}

  Status show() {
    const std::int64_t now = wall_ms();
    if (request_.since) query_.since_wall_ms = now - std::chrono::ceil<Milliseconds>(*request_.since).count();
    KLOCK_TRY(events, next());
    if (request_.timeline)
      return write_stdout(timeline_text(events, query_.since_wall_ms, now, screen_size().width));
    KLOCK_CHECK(print(events));
    while (request_.follow) {
      (void)wait_ready(-1, 0, BootClock::now() + k_look, {});
      KLOCK_CHECK(follow());
    }
    return {};
  }

 private:
  Result<std::vector<Event>> next() {
    KLOCK_TRY(page, context_.store->events(query_, store_deadline(context_.settings), {}));
    query_.position = page.position;
    std::erase_if(page.events, [&](const Event& event) { return !is_wanted(event); });
    return std::move(page.events);
  }

  // A store that is away may come back.
  Status follow() {
    auto more = next();
    if (!more && may_pass(more.error().kind)) {
      if (!std::exchange(away_, true))
        context_.say.tell(about({}, more.error().what, context_.store->describe(), "trying again"));
      return {};
    }
    if (!more) return tl::unexpected(std::move(more).error());
    if (std::exchange(away_, false))
      context_.say.tell(about({}, "it answers again", context_.store->describe(), {}));
    return print(*more);
  }

  bool is_wanted(const Event& event) const {
    if (request_.key) return event.lock.key == *request_.key;
    return matches(event.lock.name, request_.pattern);
  }

  Status print(const std::vector<Event>& events) const {
    std::string text;
    for (const Event& event : events) text += request_.json ? event_json_line(event) : event_text(event);
    return text.empty() ? Status{} : write_stdout(text);
  }

  const LogRequest& request_;
  const Context& context_;
  EventQuery query_;
  bool away_ = false;
};

}  // namespace

int log(const LogRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, {}, context.error());
  if (const auto shown = Log(request, *context).show(); !shown)
    return report_failure(context->say, {}, context->store->describe(), shown.error());
  return k_exit_ok;
}

}  // namespace klock
