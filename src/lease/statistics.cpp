// SPDX-License-Identifier: MIT
#include "lease/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace klock {
namespace {

constexpr double k_buckets_per_octave = 4;

}  // namespace

std::size_t Histogram::bucket_of(Milliseconds time) {
  if (time.count() < 1) return 0;
  const double bucket = std::floor(std::log2(static_cast<double>(time.count())) * k_buckets_per_octave) + 1;
  return std::min(static_cast<std::size_t>(bucket), k_buckets - 1);
}

Milliseconds Histogram::upper_bound(std::size_t bucket) {
  return Milliseconds(std::llround(std::exp2(static_cast<double>(bucket) / k_buckets_per_octave)));
}

void Histogram::add(Milliseconds time) {
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  ++counts.at(bucket_of(time));
  sum_ms += ms;
  max_ms = std::max(max_ms, ms);
}

std::uint64_t Histogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::optional<Milliseconds> Histogram::percentile(double share) const {
  const std::uint64_t all = total();
  if (all == 0) return std::nullopt;
  const auto wanted = std::max<double>(1, std::ceil(share * static_cast<double>(all)));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket) {
    seen += counts[bucket];
    if (static_cast<double>(seen) < wanted) continue;
    const Milliseconds longest(static_cast<std::int64_t>(max_ms));
    return bucket == 0 ? Milliseconds(0) : std::min(upper_bound(bucket), longest);
  }
  return Milliseconds(static_cast<std::int64_t>(max_ms));
}

std::uint64_t GroupStatistics::attempts() const {
  const std::uint64_t ended = count(EventKind::acquired) + count(EventKind::timed_out) +
                              count(EventKind::gave_up) + count(EventKind::skipped);
  return std::max(ended, conflicts());  // of a waiter that was killed nobody may have told the end
}

void GroupStatistics::add(const Event& event) {
  ++counts.at(static_cast<std::size_t>(event.kind));
  if (since_wall_ms == 0) since_wall_ms = event.wall_ms();
  if (event.kind == EventKind::timed_out && event.waited == Milliseconds(0)) ++refused;
  if (event.kind == EventKind::acquired && event.waited) waited.add(*event.waited);
  if (event.held) (event.unrenewed ? unrenewed : held).add(*event.held);
  if (event.kind == EventKind::renewed_late && event.late) late.add(*event.late);
  if (event.ttl)
    (event.unrenewed ? unrenewed_ttl_ms : ttl_ms) =
        static_cast<std::uint64_t>(std::max<std::int64_t>(event.ttl->count(), 0));
}

std::string group_of(std::string_view name, std::string_view chosen) {
  return std::string(chosen.empty() ? name.substr(0, name.find(':')) : chosen);
}

}  // namespace klock
