// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock {

// How often times of each length occurred. Buckets grow by the fourth root of 2, so a percentile is at most
// 19 % too long; 0: less than a millisecond, i: up to 2^(i/4) ms.
struct Histogram {
  static constexpr std::size_t k_buckets = 128;  // the last one takes whatever is longer than 41 days

  std::array<std::uint64_t, k_buckets> counts{};
  std::uint64_t sum_ms = 0;
  std::uint64_t max_ms = 0;

  static std::size_t bucket_of(Milliseconds time);
  static Milliseconds upper_bound(std::size_t bucket);

  void add(Milliseconds time);
  std::uint64_t total() const;
  // The time that `share` (0 to 1) of them did not exceed; nullopt: there are none.
  std::optional<Milliseconds> percentile(double share) const;
};

// What happened under the names of one group. Its size does not depend on the number of names.
struct GroupStatistics {
  static constexpr std::size_t k_kinds = 13;  // of EventKind

  std::string group;
  std::int64_t since_wall_ms = 0;               // the first event; 0: unknown
  std::array<std::uint64_t, k_kinds> counts{};  // by EventKind
  std::uint64_t refused = 0;                    // of those that timed out: without having waited
  std::uint64_t unrenewed_ttl_ms = 0;           // likewise, of those that nobody renews
  std::uint64_t ttl_ms = 0;                     // the last lease; 0: none
  Histogram waited;                             // before the lock was acquired
  Histogram held;                               // by those that a process renews, or that need no renewal
  Histogram unrenewed;                          // by those that nobody renews
  Histogram late;  // since the last confirmation, of those that were renewed late

  std::uint64_t count(EventKind kind) const { return counts.at(static_cast<std::size_t>(kind)); }
  // Those who came, and those of them who found it busy.
  std::uint64_t attempts() const;
  std::uint64_t conflicts() const { return count(EventKind::waiting) + refused; }

  void add(const Event& event);
};

// How many groups a store keeps; what happens under other names counts for k_other_group.
inline constexpr std::size_t k_most_groups = 500;
inline constexpr std::string_view k_other_group = "(other)";

// The group of a name: `chosen` (--group), else the name up to the first colon.
std::string group_of(std::string_view name, std::string_view chosen);

// What the figures suggest: a sentence for each thing that could be set better; empty: nothing.
std::vector<std::string> advice_for(const GroupStatistics& group);

}  // namespace klock
