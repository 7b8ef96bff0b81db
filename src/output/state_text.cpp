// SPDX-License-Identifier: MIT
#include "output/state_text.hpp"

#include "output/display_width.hpp"
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "output/message.hpp"
#include "util/wall_time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace klock {
namespace {

using Row = std::array<std::string, 6>;

std::string time_left(const Holder& holder) {
  return holder.expires_in ? human_duration(*holder.expires_in) + " left" : "no expiry";
}

std::string state_word(const LockState& state) {
  switch (state.occupancy) {
    case Occupancy::free:
      return "free";
    case Occupancy::held:
      return "held";
    case Occupancy::cooldown:
      return "cooldown";
  }
  return {};
}

std::string summary(const LockState& state) {
  switch (state.occupancy) {
    case Occupancy::free:
      return "free";
    case Occupancy::held:
      return "held, " + std::string(mode_name(state.mode)) +
             (state.slots != 0 ? ", " + std::to_string(state.slots) + " slots" : "");
    case Occupancy::cooldown:
      return "nobody runs, but --min-hold keeps it taken";
  }
  return {};
}

// Of a store of several servers, how many have it; empty of any other.
std::string spread(const Holder& holder, const LockState& state) {
  if (state.servers == 0) return {};
  return ", on " + std::to_string(holder.servers) + " of " + std::to_string(state.servers) + " servers";
}

// Likewise, if some are silent.
std::string silence(const LockState& state) {
  if (state.answered == state.servers) return {};
  return ", " + std::to_string(state.answered) + " of " + std::to_string(state.servers) + " servers answer";
}

std::string holder_lines(const Holder& holder, const LockState& state) {
  if (holder.cooldown)
    return "  kept taken by --min-hold after " + describe_holder(holder) +
           "\n    free again: " + time_left(holder) + "\n";
  std::string details = time_left(holder);
  if (!holder.id.empty()) details = "id " + escape_text(holder.id, 64) + ", " + details;
  if (holder.fence != 0) details += ", fence " + std::to_string(holder.fence);
  details += spread(holder, state);
  return "  held by " + describe_holder(holder) + "\n    " + details + "\n";
}

std::string waiter_line(const Waiter& waiter, std::size_t place) {
  std::string line = "  waiter " + std::to_string(place) + ": " + describe_person(waiter.who);
  if (waiter.mode != Mode::exclusive) line += ", " + std::string(mode_name(waiter.mode));
  if (waiter.waiting) line += ", waiting " + human_duration(*waiter.waiting);
  if (!waiter.who.message.empty()) line += ": " + escape_text(waiter.who.message, 500);
  return line + "\n";
}

std::string lock_text(const LockState& state, const std::string& store) {
  std::string text = escape_text(state.lock.name) + ": " + summary(state) + silence(state);
  if (state.occupancy == Occupancy::free && state.waiters.empty()) return text + "\n";
  if (!store.empty()) text += " (" + terminal_safe(store) + ")";
  text += "\n";
  for (const Holder& holder : state.holders)
    text += state.occupancy == Occupancy::held ? holder_lines(holder, state)
                                               : "  free again: " + time_left(holder) + "\n";
  std::size_t place = 0;
  for (const Waiter& waiter : state.waiters) text += waiter_line(waiter, ++place);
  return text;
}

Row list_row(const LockState& state) {
  Row row{escape_text(state.lock.name),        state_word(state), "-", "-", "-",
          std::to_string(state.waiters.size())};
  if (state.holders.empty()) return row;
  const auto runs = std::find_if_not(state.holders.begin(), state.holders.end(),
                                     [](const Holder& one) { return one.cooldown; });
  const Holder& first = runs == state.holders.end() ? state.holders.front() : *runs;
  if (state.occupancy == Occupancy::held) {
    row[2] = first.foreign ? describe_client(first) : describe_person(first.who);
    if (state.holders.size() > 1) row[2] += " +" + std::to_string(state.holders.size() - 1);
    if (first.since_wall_ms > 0) row[3] = local_time(first.since_wall_ms);
    if (row[3].empty()) row[3] = "-";
  }
  row[4] = first.expires_in ? human_duration(*first.expires_in) : "no expiry";
  return row;
}

}  // namespace

std::string status_text(const std::vector<LockState>& states, const std::string& store) {
  std::string text;
  for (const LockState& state : states) text += lock_text(state, store);
  return text;
}

std::string list_text(const std::vector<LockState>& states) {
  if (states.empty()) return {};
  std::vector<Row> rows{{"NAME", "STATE", "HOLDER", "SINCE", "LEFT", "WAITERS"}};
  for (const LockState& state : states) rows.push_back(list_row(state));
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text.append(row[i]).append(widths[i] - display_width(row[i]) + 2, ' ');
    text.append(row.back()) += '\n';
  }
  return text;
}

}  // namespace klock
