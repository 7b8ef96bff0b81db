// SPDX-License-Identifier: MIT
#include "output/watch_frame.hpp"

#include "output/display_width.hpp"
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "output/message.hpp"
#include "util/wall_time.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace klock {
namespace {

enum Column { c_name, c_mode, c_held, c_left, c_holder, c_waiters, c_message, k_columns };
constexpr std::array<std::string_view, k_columns> k_heads{"NAME",   "MODE",    "HELD FOR", "LEFT",
                                                          "HOLDER", "WAITERS", "MESSAGE"};
// Room that a column has at least, so that it does not jump with every second that passes.
constexpr std::array<std::size_t, k_columns> k_least{8, 9, 8, 6, 12, 7, 8};
// What is left out first where there is no room.
constexpr std::array<Column, 6> k_dispensable{c_message, c_held, c_mode, c_left, c_waiters, c_holder};
constexpr std::size_t k_gap = 2;

using Cells = std::array<std::string, k_columns>;
using Widths = std::array<std::size_t, k_columns>;  // 0: the column is not shown

std::string mode_cell(const LockState& state) {
  switch (state.occupancy) {
    case Occupancy::free:
      return "free";
    case Occupancy::cooldown:
      return "cooldown";
    case Occupancy::held:
      break;
  }
  std::string text(mode_name(state.mode));
  if (state.mode != Mode::slots) return text;
  text += " " + std::to_string(state.holders.size());
  return state.slots != 0 ? text + "/" + std::to_string(state.slots) : text;
}

std::string waiters_cell(const LockState& state) {
  if (state.waiters.empty()) return "-";
  std::optional<Milliseconds> longest;
  for (const Waiter& waiter : state.waiters)
    if (waiter.waiting) longest = std::max(longest.value_or(Milliseconds(0)), *waiter.waiting);
  const std::string count = std::to_string(state.waiters.size());
  return longest ? count + " (" + human_duration(*longest) + ")" : count;
}

void add_holder(Cells& cells, const Holder& holder, bool held) {
  if (holder.expires_in)
    cells[c_left] = human_duration(*holder.expires_in);
  else if (holder.foreign)
    cells[c_left] = "no expiry";
  if (!held) return;
  if (holder.held) cells[c_held] = human_duration(*holder.held);
  cells[c_holder] = holder.foreign ? describe_holder(holder) : describe_person(holder.who);
  cells[c_message] = escape_text(holder.who.message, 500);
}

// What belongs to the lock, not to one of its holders, stands in its first row alone.
Cells cells_of(const WatchRow& row, bool first_of_lock) {
  const LockState& state = *row.state;
  Cells cells{"", "", "-", "-", "-", "", ""};
  if (first_of_lock) {
    cells[c_name] = escape_text(state.lock.name);
    cells[c_mode] = mode_cell(state);
    cells[c_waiters] = waiters_cell(state);
  }
  if (row.holder) add_holder(cells, *row.holder, state.occupancy == Occupancy::held);
  return cells;
}

std::vector<Cells> cells_of(std::span<const WatchRow> rows) {
  std::vector<Cells> cells;
  for (std::size_t i = 0; i < rows.size(); ++i)
    cells.push_back(cells_of(rows[i], i == 0 || rows[i].state != rows[i - 1].state));
  return cells;
}

std::size_t total(const Widths& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths)
    if (width != 0) sum += width + (sum != 0 ? k_gap : 0);
  return sum;
}

// What `column` can do without.
std::size_t spare(const Widths& widths, Column column) {
  return widths[column] - std::min(widths[column], k_least[column]);
}

// The shorter of name and holder keeps what it needs.
void take_from_name_and_holder(Widths& widths, std::size_t excess) {
  const std::size_t room = widths[c_name] + widths[c_holder] - excess;
  const std::size_t half = widths[c_holder] != 0 ? room / 2 : room;
  widths[c_name] = std::min(widths[c_name], std::max(half, room - std::min(room, widths[c_holder])));
  widths[c_holder] = room - widths[c_name];
}

Widths widths_of(const std::vector<Cells>& table, std::size_t width) {
  Widths widths = k_least;
  for (const Cells& cells : table)
    for (std::size_t i = 0; i < k_columns; ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
  if (std::all_of(table.begin(), table.end(), [](const Cells& cells) { return cells[c_message].empty(); }))
    widths[c_message] = 0;
  for (const Column column : k_dispensable) {
    const std::size_t sum = total(widths);
    if (sum <= width) break;
    // Of a message a part is worth showing, but not at the price of the others.
    const bool is_message = column == c_message;
    const std::size_t give =
        is_message ? spare(widths, c_message) : spare(widths, c_name) + spare(widths, c_holder);
    if (sum - width > give)
      widths[column] = 0;
    else if (is_message)
      widths[c_message] -= sum - width;
    else
      take_from_name_and_holder(widths, sum - width);
  }
  return widths;
}

std::string row_text(const Cells& cells, const Widths& widths, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < k_columns; ++i) {
    if (widths[i] == 0) continue;
    if (!text.empty()) text.append(k_gap, ' ');
    text += fit_to_width(cells[i], widths[i]);
  }
  return fit_to_width(text, width);
}

std::string head_text(const Widths& widths, std::size_t width) {
  Cells cells;
  std::copy(k_heads.begin(), k_heads.end(), cells.begin());
  return row_text(cells, widths, width);
}

// "12:03:04" of "2026-11-29 12:03:04"
std::string time_of_day(std::int64_t wall_ms) {
  constexpr std::size_t k_date = 11;
  const std::string time = local_time(wall_ms);
  return time.size() > k_date ? time.substr(k_date) : time;
}

FrameLine top_line(const WatchPicture& picture, std::size_t width) {
  std::size_t held = 0;
  std::size_t waiting = 0;
  for (const LockState& state : picture.states) {
    held += state.occupancy == Occupancy::held ? 1 : 0;
    waiting += state.waiters.size();
  }
  const bool failed = picture.failed_wall_ms != 0;
  std::string text = time_of_day(picture.wall_ms) + "  " + std::to_string(held) + " held, " +
                     std::to_string(waiting) + " waiting  ";
  if (failed) text += "not reachable since " + time_of_day(picture.failed_wall_ms) + "  ";
  text += picture.store;
  if (failed) text += ": " + picture.failure;
  return {fit_to_width(terminal_safe(text), width), failed};
}

std::string_view sort_name(WatchSort sort) {
  switch (sort) {
    case WatchSort::name:
      return "name";
    case WatchSort::age:
      return "age";
    case WatchSort::left:
      return "time left";
    case WatchSort::waiters:
      return "waiters";
  }
  return {};
}

FrameLine key_line(const WatchView& view, std::size_t shown, std::size_t all, std::size_t top,
                   std::size_t width) {
  const std::string filter = terminal_safe(view.filter);
  if (view.typing)
    return {fit_to_width("filter: " + filter + "_  Enter keeps it, Esc drops it", width), true};
  std::string text = "q quit  n/a/l/w sort: " + std::string(sort_name(view.sort));
  text += view.reversed ? ", reversed" : "  r reverse";
  text += filter.empty() ? "  / filter" : "  / filter: " + filter;
  text += all == 0 ? "  nothing to show"
                   : "  j/k " + std::to_string(top + 1) + "-" + std::to_string(top + shown) + " of " +
                         std::to_string(all);
  return {fit_to_width(text, width)};
}

void add_table(std::vector<FrameLine>& lines, std::span<const WatchRow> rows, bool with_head,
               std::size_t width) {
  const std::vector<Cells> table = cells_of(rows);
  const Widths widths = widths_of(table, width);
  if (with_head) lines.push_back({head_text(widths, width), true});
  for (const Cells& cells : table) lines.push_back({row_text(cells, widths, width)});
}

}  // namespace

WatchFrame watch_frame(const WatchPicture& picture, const WatchView& view, std::size_t width,
                       std::size_t height) {
  WatchFrame frame;
  if (height == 0) return frame;
  frame.lines.push_back(top_line(picture, width));
  const bool with_head = height > 2;
  const bool with_keys = height > 3;
  const std::size_t room = height - 1 - (with_head ? 1 : 0) - (with_keys ? 1 : 0);
  const std::vector<WatchRow> rows = watch_rows(picture.states, view);
  frame.reach = {room, rows.size() - std::min(room, rows.size())};
  frame.top = std::min(view.top, frame.reach.last);
  const std::size_t shown = std::min(room, rows.size() - frame.top);
  if (room > 0) add_table(frame.lines, std::span(rows).subspan(frame.top, shown), with_head, width);
  frame.lines.resize(height);
  if (with_keys) frame.lines.back() = key_line(view, shown, rows.size(), frame.top, width);
  return frame;
}

std::string watch_text(const WatchPicture& picture, const WatchView& view, std::size_t width) {
  std::vector<FrameLine> lines{top_line(picture, width)};
  add_table(lines, watch_rows(picture.states, view), true, width);
  std::string text;
  for (const FrameLine& line : lines) {
    const std::size_t end = line.text.find_last_not_of(' ');
    text.append(line.text, 0, end == std::string::npos ? 0 : end + 1) += '\n';
  }
  return text;
}

}  // namespace klock
