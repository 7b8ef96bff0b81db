// SPDX-License-Identifier: MIT
#include "output/statistics.hpp"
#include "output/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace klock {
namespace {

constexpr std::size_t k_buckets_per_step =
    8;  // a step is two doublings: the format has no use for finer ones

// A label's value: valid UTF-8, with backslash, quote and line's end escaped, and nothing that a terminal
// obeys.
std::string label_value(std::string_view text) {
  std::string value;
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    if (length == 0 || (is_control && text[0] != '\n'))
      value += "\xEF\xBF\xBD";
    else if (text[0] == '\\' || text[0] == '"')
      value.append(1, '\\').append(1, text[0]);
    else if (text[0] == '\n')
      value += "\\n";
    else
      value += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return value;
}

std::string seconds(std::uint64_t ms) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%llu.%03llu", static_cast<unsigned long long>(ms / 1000),
                static_cast<unsigned long long>(ms % 1000));
  return text.data();
}

std::string header(const std::string& name, const char* help, const char* type) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

class Exposition {
 public:
  Exposition(const std::vector<GroupStatistics>& groups, const std::string& store)
      : groups_(groups), store_(label_value(store)) {}

  std::string text() {
    events();
    counter("klock_conflicts_total", "Attempts that found the lock busy.",
            [](const GroupStatistics& group) { return group.conflicts(); });
    histogram("klock_wait_seconds", "Time waited before the lock was acquired.", &GroupStatistics::waited);
    histogram("klock_hold_seconds", "Time that the lock was held.", &GroupStatistics::held);
    histogram("klock_unrenewed_hold_seconds", "Time that leases were held which nobody renews.",
              &GroupStatistics::unrenewed);
    histogram("klock_late_renewal_seconds", "Time since the last renewal, of those that came late.",
              &GroupStatistics::late);
    return std::move(text_);
  }

 private:
  std::string labels(const GroupStatistics& group, const std::string& more = {}) const {
    return "{store=\"" + store_ + "\",group=\"" + label_value(group.group) + "\"" + more + "}";
  }

  void events() {
    const std::string name = "klock_events_total";
    text_ += header(name, "What happened to locks, by kind of event.", "counter");
    for (const GroupStatistics& group : groups_)
      for (std::size_t kind = 0; kind < group.counts.size(); ++kind)
        text_ += name +
                 labels(group, ",event=\"" + std::string(event_name(static_cast<EventKind>(kind))) + "\"") +
                 " " + std::to_string(group.counts.at(kind)) + "\n";
  }

  template <class Value>
  void counter(const std::string& name, const char* help, Value value) {
    text_ += header(name, help, "counter");
    for (const GroupStatistics& group : groups_)
      text_ += name + labels(group) + " " + std::to_string(value(group)) + "\n";
  }

  void histogram(const std::string& name, const char* help, Histogram GroupStatistics::*member) {
    text_ += header(name, help, "histogram");
    for (const GroupStatistics& group : groups_) {
      const Histogram& times = group.*member;
      std::uint64_t below = 0;
      for (std::size_t bucket = 0; bucket < times.counts.size(); ++bucket) {
        below += times.counts.at(bucket);
        if (bucket % k_buckets_per_step != k_buckets_per_step - 1 || bucket + 1 == times.counts.size())
          continue;
        const auto bound = static_cast<std::uint64_t>(Histogram::upper_bound(bucket).count());
        text_ += name + "_bucket" + labels(group, ",le=\"" + seconds(bound) + "\"") + " " +
                 std::to_string(below) + "\n";
      }
      const std::string total = std::to_string(times.total());
      text_ += name + "_bucket" + labels(group, ",le=\"+Inf\"") + " " + total + "\n";
      text_ += name + "_sum" + labels(group) + " " + seconds(times.sum_ms) + "\n";
      text_ += name + "_count" + labels(group) + " " + total + "\n";
    }
  }

  const std::vector<GroupStatistics>& groups_;
  const std::string store_;
  std::string text_;
};

}  // namespace

std::string statistics_prometheus(const std::vector<GroupStatistics>& groups, const std::string& store) {
  return Exposition(groups, store).text();
}

}  // namespace klock
