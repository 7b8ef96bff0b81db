// SPDX-License-Identifier: MIT
#include "output/timeline.hpp"

#include "output/display_width.hpp"
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "output/message.hpp"
#include "util/wall_time.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace klock {
namespace {

constexpr std::size_t k_narrowest = 40;
constexpr std::size_t k_widest_label = 36;
constexpr char k_legend[] =
    ". waits  = holds  | released  X forced, lost or expired  t timed out  g gave up  s skipped\n"
    "d went on without the store  ? end unknown  > goes on\n";

// One claim, from its first event to its last.
struct Span {
  std::string who;
  Mode mode = Mode::exclusive;
  std::optional<std::int64_t> waits;  // since
  std::optional<std::int64_t> holds;  // since
  std::optional<std::int64_t> ends;
  char mark = '>';

  std::int64_t begins() const { return waits ? *waits : holds.value_or(0); }
};

struct Lane {
  std::string name;
  std::vector<Span> spans;  // in the order of their first events
  std::map<std::string, std::size_t> by_id;
};

char mark_of(EventKind kind) {
  switch (kind) {
    case EventKind::released:
      return '|';
    case EventKind::timed_out:
      return 't';
    case EventKind::gave_up:
      return 'g';
    case EventKind::skipped:
      return 's';
    case EventKind::degraded:
      return 'd';
    default:
      return 'X';
  }
}

bool is_end(EventKind kind) {
  switch (kind) {
    case EventKind::waiting:
    case EventKind::acquired:
    case EventKind::renewed_late:
    case EventKind::reclaimed:
      return false;
    default:
      return true;
  }
}

std::int64_t before(const Event& event, const std::optional<Milliseconds>& time) {
  return event.wall_ms() - (time ? time->count() : 0);
}

// Those who still seem to hold it when somebody gets it alone have gone.
void end_unknown(Lane& lane, std::size_t holder, std::int64_t when) {
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    Span& span = lane.spans[i];
    if (i == holder || !span.holds || span.ends) continue;
    span.ends = when;
    span.mark = '?';
  }
}

Span& span_of(Lane& lane, const Event& event) {
  const auto [found, is_new] = lane.by_id.try_emplace(event.id, lane.spans.size());
  if (is_new) lane.spans.emplace_back();
  return lane.spans[found->second];
}

void take(Lane& lane, const Event& event) {
  if (event.kind == EventKind::reconnected) return;
  Span& span = span_of(lane, event);
  if (event.kind == EventKind::degraded && span.holds) return;  // held on its host
  if (span.who.empty() || !event.who.host.empty()) span.who = describe_person(event.who);
  span.mode = event.mode;
  if (event.kind == EventKind::waiting) span.waits = event.wall_ms();
  if (event.waited && event.waited->count() > 0 && !span.waits) span.waits = before(event, event.waited);
  if (event.kind == EventKind::acquired) {
    span.holds = event.wall_ms();
    if (event.mode == Mode::exclusive) end_unknown(lane, lane.by_id.at(event.id), event.wall_ms());
  }
  if (event.held && !span.holds) span.holds = before(event, event.held);
  if (!span.waits && !span.holds) span.holds = event.wall_ms();
  if (!is_end(event.kind)) return;
  span.ends = event.wall_ms();
  span.mark = mark_of(event.kind);
}

class Chart {
 public:
  Chart(std::int64_t from, std::int64_t to, std::size_t columns)
      : from_(from), length_(std::max<std::int64_t>(to - from, 1)), columns_(columns) {}

  std::string line(const Span& span) const {
    std::string text(columns_, ' ');
    const std::int64_t end = span.ends.value_or(from_ + length_);
    const std::int64_t held = span.holds.value_or(end);
    if (span.waits) fill(text, *span.waits, held, '.');
    if (span.holds && *span.holds < end) fill(text, *span.holds, end, '=');
    text[column(end)] = span.mark;
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

  std::int64_t per_column() const { return length_ / static_cast<std::int64_t>(columns_); }

 private:
  std::size_t column(std::int64_t when) const {
    const std::int64_t at = std::clamp<std::int64_t>(when - from_, 0, length_);
    return std::min(columns_ - 1,
                    static_cast<std::size_t>(at) * columns_ / static_cast<std::size_t>(length_));
  }
  void fill(std::string& text, std::int64_t from, std::int64_t to, char with) const {
    for (std::size_t i = column(from); i <= column(to); ++i) text[i] = with;
  }

  std::int64_t from_;
  std::int64_t length_;
  std::size_t columns_;
};

std::string label_of(const Span& span, std::size_t width) {
  std::string label = span.who;
  if (span.mode == Mode::shared) label += " s";
  return fit_to_width(label, width);
}

std::size_t label_width(const std::map<std::string, Lane>& lanes, std::size_t width) {
  std::size_t widest = 1;
  for (const auto& [key, lane] : lanes)
    for (const Span& span : lane.spans) widest = std::max(widest, display_width(span.who) + 2);
  return std::min({widest, k_widest_label, width / 2});
}

}  // namespace

std::string timeline_text(const std::vector<Event>& events, std::int64_t from_ms, std::int64_t to_ms,
                          std::size_t width) {
  if (events.empty()) return {};
  width = std::max(width, k_narrowest);
  std::map<std::string, Lane> lanes;
  for (const Event& event : events) {
    Lane& lane = lanes[event.lock.key];
    lane.name = event.lock.name;
    take(lane, event);
  }
  std::int64_t from = from_ms;
  if (from == 0) {
    from = events.front().wall_ms();
    for (const auto& [key, lane] : lanes)
      for (const Span& span : lane.spans) from = std::clamp<std::int64_t>(span.begins(), 0, from);
  }
  const std::int64_t to = std::max(to_ms, events.back().wall_ms());
  const std::size_t labels = label_width(lanes, width);
  const Chart chart(from, to, width - labels - 4);
  std::string text = local_time(from) + " to " + local_time(to) + ", a column is " +
                     human_duration(Milliseconds(chart.per_column())) + "\n";
  for (const auto& [key, lane] : lanes) {
    text += escape_text(lane.name) + "\n";
    for (const Span& span : lane.spans)
      text += "  " + label_of(span, labels) + "  " + chart.line(span) + "\n";
  }
  return text + k_legend;
}

}  // namespace klock
