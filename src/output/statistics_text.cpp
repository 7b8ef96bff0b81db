// SPDX-License-Identifier: MIT
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "output/statistics.hpp"
#include "util/wall_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace klock {
namespace {

constexpr std::size_t k_buckets_per_column = 4;  // a column is a doubling
constexpr std::string_view k_heights = " .:-=+*#";

std::string counter(std::uint64_t count, const char* what) {
  return count == 0 ? std::string() : ", " + std::to_string(count) + " " + what;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "0%";
  const auto share = static_cast<double>(part) * 100 / static_cast<double>(whole);
  return share < 1 ? "<1%" : std::to_string(std::lround(share)) + "%";
}

// One character for each doubling of the time, from the shortest to the longest that occurred.
std::string chart(const Histogram& times) {
  std::vector<std::uint64_t> columns(Histogram::k_buckets / k_buckets_per_column);
  for (std::size_t i = 0; i < Histogram::k_buckets; ++i)
    columns[i / k_buckets_per_column] += times.counts.at(i);
  const auto used = [](std::uint64_t count) { return count != 0; };
  const auto first = std::find_if(columns.begin(), columns.end(), used);
  const auto last = std::find_if(columns.rbegin(), columns.rend(), used).base();
  const std::uint64_t most = *std::max_element(columns.begin(), columns.end());
  const auto start = static_cast<std::size_t>(first - columns.begin()) * k_buckets_per_column;
  std::string text = (start == 0 ? "0s" : human_duration(Histogram::upper_bound(start - 1))) + " [";
  for (auto column = first; column != last; ++column) {
    const std::uint64_t height = (*column * (k_heights.size() - 1) + most - 1) / most;
    text += k_heights.at(static_cast<std::size_t>(height));
  }
  const auto end = static_cast<std::size_t>(last - columns.begin()) * k_buckets_per_column - 1;
  return text + "] " + human_duration(Histogram::upper_bound(end));
}

std::string times_line(const char* name, const Histogram& times) {
  if (times.total() == 0) return {};
  std::string line = "  " + std::string(name);
  line.resize(14, ' ');
  for (const auto& [label, share] : {std::pair("p50", 0.5), std::pair("p95", 0.95), std::pair("p99", 0.99)})
    line += std::string(label) + " " + human_duration(*times.percentile(share)) + "  ";
  line += "max " + human_duration(Milliseconds(static_cast<std::int64_t>(times.max_ms)));
  line.resize(std::max<std::size_t>(line.size(), 60), ' ');
  return line + "  " + chart(times) + "\n";
}

std::string group_text(const GroupStatistics& group) {
  const auto count = [&](EventKind kind) { return group.count(kind); };
  std::string text = (group.group.empty() ? "(no name)" : escape_text(group.group)) + ": " +
                     std::to_string(count(EventKind::acquired)) + " acquired";
  if (group.since_wall_ms > 0) text += " since " + local_time(group.since_wall_ms);
  text += ", " + percent(group.conflicts(), group.attempts()) + " found it busy\n";
  std::string ends =
      counter(count(EventKind::timed_out), "timed out") + counter(count(EventKind::gave_up), "gave up") +
      counter(count(EventKind::skipped), "skipped") + counter(count(EventKind::lost), "lost") +
      counter(count(EventKind::expired), "expired") + counter(count(EventKind::forced), "forced") +
      counter(count(EventKind::reclaimed), "taken back") +
      counter(count(EventKind::renewed_late), "renewed late") +
      counter(count(EventKind::degraded), "degraded");
  if (!ends.empty()) text += "  " + ends.substr(2) + "\n";
  text += times_line("waited", group.waited) + times_line("held", group.held) +
          times_line("not renewed", group.unrenewed) + times_line("late", group.late);
  for (const std::string& advice : advice_for(group)) text += "  -> " + advice + "\n";
  return text;
}

}  // namespace

std::string statistics_text(const std::vector<GroupStatistics>& groups) {
  std::string text;
  for (const GroupStatistics& group : groups) text += group_text(group);
  return text;
}

}  // namespace klock
