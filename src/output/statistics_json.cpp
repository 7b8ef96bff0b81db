// SPDX-License-Identifier: MIT
#include "output/statistics.hpp"
#include "util/wall_time.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace klock {
namespace {

using Json = nlohmann::ordered_json;

Json percentile(const Histogram& times, double share) {
  const auto value = times.percentile(share);
  return value ? Json(value->count()) : Json(nullptr);
}

Json times_json(const Histogram& times) {
  Json buckets = Json::array();
  for (std::size_t i = 0; i < times.counts.size(); ++i)
    if (times.counts.at(i) != 0)
      buckets.push_back({{"up_to_ms", Histogram::upper_bound(i).count()}, {"count", times.counts.at(i)}});
  return {{"count", times.total()},
          {"sum_ms", times.sum_ms},
          {"p50_ms", percentile(times, 0.5)},
          {"p95_ms", percentile(times, 0.95)},
          {"p99_ms", percentile(times, 0.99)},
          {"max_ms", times.total() == 0 ? Json(nullptr) : Json(times.max_ms)},
          {"buckets", std::move(buckets)}};
}

Json group_json(const GroupStatistics& group) {
  Json json{{"group", group.group}};
  json["since"] = group.since_wall_ms > 0 ? Json(utc_time(group.since_wall_ms)) : Json(nullptr);
  for (std::size_t kind = 0; kind < group.counts.size(); ++kind)
    json[std::string(event_name(static_cast<EventKind>(kind)))] = group.counts.at(kind);
  json["attempts"] = group.attempts();
  json["conflicts"] = group.conflicts();
  json["ttl_ms"] = group.ttl_ms != 0 ? Json(group.ttl_ms) : Json(nullptr);
  json["waited"] = times_json(group.waited);
  json["held"] = times_json(group.held);
  json["held_unrenewed"] = times_json(group.unrenewed);
  json["late"] = times_json(group.late);
  json["advice"] = advice_for(group);
  return json;
}

}  // namespace

std::string statistics_json(const std::vector<GroupStatistics>& groups) {
  Json json = Json::array();
  for (const GroupStatistics& group : groups) json.push_back(group_json(group));
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace klock
