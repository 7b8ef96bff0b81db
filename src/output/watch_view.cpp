// SPDX-License-Identifier: MIT
#include "output/watch_view.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace klock {
namespace {

constexpr std::size_t k_longest_filter = 200;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool is_wanted(const LockState& state, const std::string& filter) {
  if (filter.empty() || contains(state.lock.name, filter)) return true;
  return std::any_of(state.holders.begin(), state.holders.end(), [&](const Holder& holder) {
    const Person& who = holder.who;
    return contains(who.user + "@" + who.host, filter) || contains(who.program, filter) ||
           contains(who.message, filter);
  });
}

// What comes first has the smallest.
using Rank = std::pair<std::int64_t, std::int64_t>;

Rank rank_of(const LockState& state, WatchSort sort) {
  constexpr std::int64_t k_last = std::numeric_limits<std::int64_t>::max();
  std::int64_t rank = sort == WatchSort::left ? k_last : 1;
  for (const Holder& holder : state.holders) {
    if (sort == WatchSort::age && holder.held) rank = std::min(rank, -holder.held->count());
    if (sort == WatchSort::left && holder.expires_in) rank = std::min(rank, holder.expires_in->count());
  }
  if (sort != WatchSort::waiters) return {rank, 0};
  std::int64_t longest = 0;
  for (const Waiter& waiter : state.waiters)
    if (waiter.waiting) longest = std::max(longest, waiter.waiting->count());
  return {-std::ssize(state.waiters), -longest};
}

std::vector<const LockState*> sorted_states(const std::vector<LockState>& states, const WatchView& view) {
  std::vector<std::pair<Rank, const LockState*>> ranked;
  for (const LockState& state : states)
    if (is_wanted(state, view.filter))
      ranked.emplace_back(view.sort == WatchSort::name ? Rank() : rank_of(state, view.sort), &state);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (view.reversed) std::reverse(ranked.begin(), ranked.end());
  std::vector<const LockState*> sorted;
  for (const auto& [rank, state] : ranked) sorted.push_back(state);
  return sorted;
}

void remove_last_character(std::string& text) {
  while (!text.empty()) {
    const bool continues = (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80;
    text.pop_back();
    if (!continues) return;
  }
}

void type(WatchView& view, const KeyPress& press) {
  view.top = 0;
  switch (press.key) {
    case Key::text:
      if (view.filter.size() + press.text.size() <= k_longest_filter) view.filter += press.text;
      return;
    case Key::backspace:
      return remove_last_character(view.filter);
    case Key::erase_line:
      return view.filter.clear();
    case Key::escape:
      view.filter.clear();
      view.typing = false;
      return;
    case Key::enter:
      view.typing = false;
      return;
    default:
      return;
  }
}

void sort_by(WatchView& view, WatchSort sort) {
  view.sort = sort;
  view.reversed = false;
  view.top = 0;
}

void scroll_up(WatchView& view, std::size_t rows) {
  view.top -= std::min(view.top, rows);
}

void scroll_down(WatchView& view, std::size_t rows, const WatchReach& reach) {
  view.top = std::min(view.top + rows, std::max(view.top, reach.last));
}

// False: leave.
bool command(WatchView& view, char letter, const WatchReach& reach) {
  switch (letter) {
    case 'q':
      return false;
    case 'n':
      sort_by(view, WatchSort::name);
      break;
    case 'a':
      sort_by(view, WatchSort::age);
      break;
    case 'l':
      sort_by(view, WatchSort::left);
      break;
    case 'w':
      sort_by(view, WatchSort::waiters);
      break;
    case 'r':
      view.reversed = !view.reversed;
      view.top = 0;
      break;
    case '/':
      view.typing = true;
      break;
    case 'j':
      scroll_down(view, 1, reach);
      break;
    case 'k':
      scroll_up(view, 1);
      break;
    default:
      break;
  }
  return true;
}

}  // namespace

std::vector<WatchRow> watch_rows(const std::vector<LockState>& states, const WatchView& view) {
  std::vector<WatchRow> rows;
  for (const LockState* state : sorted_states(states, view)) {
    for (const Holder& holder : state->holders) rows.push_back({state, &holder});
    if (state->holders.empty()) rows.push_back({state});
  }
  return rows;
}

bool press(WatchView& view, const KeyPress& key, const WatchReach& reach) {
  if (view.typing) {
    type(view, key);
    return true;
  }
  switch (key.key) {
    case Key::text:
      return key.text.size() != 1 || command(view, key.text[0], reach);
    case Key::escape:
      return false;
    case Key::up:
      scroll_up(view, 1);
      return true;
    case Key::down:
      scroll_down(view, 1, reach);
      return true;
    case Key::page_up:
      scroll_up(view, reach.page);
      return true;
    case Key::page_down:
      scroll_down(view, reach.page, reach);
      return true;
    case Key::home:
      view.top = 0;
      return true;
    case Key::end:
      view.top = reach.last;
      return true;
    default:
      return true;
  }
}

}  // namespace klock
