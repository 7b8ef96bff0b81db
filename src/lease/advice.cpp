// SPDX-License-Identifier: MIT
#include "lease/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace klock {
namespace {

constexpr std::uint64_t k_enough = 20;  // fewer say nothing about the usual case

// "1.5s", "45s", "12m", "3h": rounded up, as one would write it in an option.
std::string as_option(std::uint64_t ms) {
  const auto up = [ms](std::uint64_t unit) { return std::to_string((ms + unit - 1) / unit); };
  if (ms < 1000) return std::to_string(ms) + "ms";
  if (ms < 120'000) return up(1000) + "s";
  if (ms < 7'200'000) return up(60'000) + "m";
  return up(3'600'000) + "h";
}

std::uint64_t percentile(const Histogram& times, double share) {
  const auto value = times.percentile(share);
  return value ? static_cast<std::uint64_t>(value->count()) : 0;
}

std::string on_lease(const GroupStatistics& group) {
  const std::uint64_t ttl = group.ttl_ms;
  if (ttl == 0) return {};
  const std::uint64_t outage = group.late.max_ms;
  const std::uint64_t lost = group.count(EventKind::lost) + group.count(EventKind::expired);
  // A renewal is tried every third of the lease, so an outage may begin up to a third after the last one.
  if (outage * 3 > ttl)
    return "the store was away for up to " + as_option(outage) + " of the " + as_option(ttl) +
           " lease: --ttl " + as_option(outage * 3) + " would leave room";
  if (lost > 0 && ttl < 10'000)
    return std::to_string(lost) + " leases were lost or ended by themselves: one of " + as_option(ttl) +
           " leaves little time for a restart of the store; --ttl 15s rides out more";
  return {};
}

std::string on_unrenewed(const GroupStatistics& group) {
  if (group.unrenewed.total() < k_enough || group.unrenewed_ttl_ms == 0) return {};
  const std::uint64_t longest = percentile(group.unrenewed, 0.99);
  if (longest * 10 < group.unrenewed_ttl_ms * 9) return {};
  return "leases that nobody renews are held for " + as_option(longest) + " (p99), and last " +
         as_option(group.unrenewed_ttl_ms) + ": --ttl " + as_option(longest * 3 / 2) + " or klock renew";
}

std::string on_outliers(const GroupStatistics& group) {
  if (group.held.total() < k_enough) return {};
  const std::uint64_t usual = std::max<std::uint64_t>(percentile(group.held, 0.95), 1000);
  if (group.held.max_ms < usual * 4) return {};
  return "the longest hold took " + as_option(group.held.max_ms) + ", 95 of 100 at most " + as_option(usual) +
         ": --max-hold " + as_option(usual * 2) + " would have stopped the outliers";
}

std::string on_time_outs(const GroupStatistics& group) {
  const std::uint64_t waited =
      group.count(EventKind::timed_out) - std::min(group.refused, group.count(EventKind::timed_out));
  if (waited < k_enough / 4 || waited * 10 < group.attempts()) return {};
  return "one in " + std::to_string(group.attempts() / waited) + " gave up waiting: the usual hold takes " +
         as_option(std::max<std::uint64_t>(percentile(group.held, 0.95), 1)) + " (p95), choose --wait by it";
}

}  // namespace

std::vector<std::string> advice_for(const GroupStatistics& group) {
  std::vector<std::string> all{on_lease(group), on_unrenewed(group), on_outliers(group), on_time_outs(group)};
  std::erase_if(all, [](const std::string& text) { return text.empty(); });
  return all;
}

}  // namespace klock
