// SPDX-License-Identifier: MIT
#include "store/redis/statistics.hpp"

#include "store/redis/keys.hpp"

#include <algorithm>
#include <charconv>

namespace klock::redis {
namespace {

// "w17", "wsum", "wmax"
void take_time(std::string_view field, std::uint64_t value, Histogram& times) {
  if (field == "sum") times.sum_ms = value;
  if (field == "max") times.max_ms = value;
  std::size_t bucket = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), bucket);
  if (error == std::errc() && end == field.data() + field.size() && bucket < Histogram::k_buckets)
    times.counts.at(bucket) = value;
}

void take_field(std::string_view field, std::uint64_t value, GroupStatistics& group) {
  if (const auto kind = parse_event_name(field)) group.counts.at(static_cast<std::size_t>(*kind)) = value;
  if (field == "since") group.since_wall_ms = static_cast<std::int64_t>(value);
  if (field == "refused") group.refused = value;
  if (field == "ttl") group.ttl_ms = value;
  if (field == "uttl") group.unrenewed_ttl_ms = value;
  if (field.empty()) return;
  const std::string_view rest = field.substr(1);
  if (field[0] == 'w') take_time(rest, value, group.waited);
  if (field[0] == 'h') take_time(rest, value, group.held);
  if (field[0] == 'u') take_time(rest, value, group.unrenewed);
  if (field[0] == 'l') take_time(rest, value, group.late);
}

}  // namespace

GroupStatistics parse_statistics(const Reply& hash) {
  GroupStatistics group;
  for (std::size_t i = 0; i + 1 < hash.items.size(); i += 2)
    take_field(hash.text_at(i), static_cast<std::uint64_t>(std::max<std::int64_t>(hash.number_at(i + 1), 0)),
               group);
  return group;
}

Io<std::vector<GroupStatistics>> read_statistics(Client& client, const std::string& prefix, Instant deadline,
                                                 Interrupt interrupt) {
  KLOCK_TRY(members, client.command({"ZRANGE", groups_key(prefix), "0", "-1"}, deadline, interrupt));
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < members.items.size(); ++i) keys.emplace_back(members.text_at(i));
  if (const std::string other = stats_key(prefix, k_other_group);
      std::find(keys.begin(), keys.end(), other) == keys.end())
    keys.push_back(other);
  Pipeline out;
  for (const std::string& key : keys) out.add({"HGETALL", key});
  KLOCK_TRY(hashes, client.commands(out, deadline, interrupt));
  const std::string before = stats_key(prefix, {});
  std::vector<GroupStatistics> groups;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (hashes[i].is_error() && fault_of(hashes[i].text).cause == Cause::ask) {
      KLOCK_TRY(moved, client.command({"HGETALL", keys[i]}, deadline, interrupt));
      hashes[i] = std::move(moved);
    }
    // One of another type hides no more than itself.
    if (hashes[i].is_error() && forbids(hashes[i].text))
      return tl::unexpected<Fault>(fault_of(hashes[i].text));
    if (hashes[i].items.empty() || !keys[i].starts_with(before)) continue;
    groups.push_back(parse_statistics(hashes[i]));
    groups.back().group = keys[i].substr(before.size());
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.group < b.group; });
  return groups;
}

}  // namespace klock::redis
