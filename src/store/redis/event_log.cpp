// SPDX-License-Identifier: MIT
#include "store/redis/event_log.hpp"

#include "store/redis/keys.hpp"
#include "store/redis/record.hpp"

#include <algorithm>
#include <charconv>

namespace klock::redis {
namespace {

constexpr std::size_t k_batch = 1000;
constexpr std::int64_t k_latest_ms = 253'402'300'799'999;  // the year 9999
constexpr std::string_view k_batch_text = "1000";

template <class Number>
Number number_in(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The smallest id above `id`: servers before 6.2 know no exclusive ranges.
std::string id_after(const std::string& id) {
  const auto dash = std::min(id.find('-'), id.size());
  const std::string_view sequence = std::string_view(id).substr(std::min(dash + 1, id.size()));
  return id.substr(0, dash) + "-" + std::to_string(number_in<std::uint64_t>(sequence) + 1);
}

std::string start_of(const EventQuery& query) {
  if (!query.position.empty()) return id_after(query.position);
  return query.since_wall_ms > 0 ? std::to_string(query.since_wall_ms) : "-";
}

void take_field(std::string_view name, std::string_view value, Event& event) {
  if (name == "key") event.lock.key = value;
  if (name == "id") event.id = value;
  if (name == "fence") event.fence = number_in<std::uint64_t>(value);
  if (name == "waited") event.waited = Milliseconds(number_in<std::int64_t>(value));
  if (name == "held") event.held = Milliseconds(number_in<std::int64_t>(value));
  if (name == "at")  // it was noted late
    event.wall_us = std::clamp<std::int64_t>(number_in<std::int64_t>(value), 0, k_latest_ms) * 1000;
  if (name == "late") event.late = Milliseconds(number_in<std::int64_t>(value));
  if (name == "reason" && event.reason.empty()) event.reason = value;
  if (name == "mode") {
    const ModeText mode = parse_mode(value);
    event.mode = mode.mode;
    event.slots = mode.slots;
  }
  if (name == "details") {
    Details details = parse_details(value);
    event.lock.name = std::move(details.name);
    event.who = std::move(details.who);
  }
  if (name != "request") return;
  if (auto order = parse_request(value)) {
    event.by = std::move(order->request.by);
    if (!order->request.reason.empty()) event.reason = std::move(order->request.reason);
  }
}

}  // namespace

std::optional<Event> parse_event_entry(const Reply& entry, const std::string& prefix) {
  const Reply& fields = entry.at(1);
  std::optional<EventKind> kind;
  Event event;
  event.wall_us = std::min<std::int64_t>(number_in<std::int64_t>(entry.text_at(0)), k_latest_ms) * 1000;
  for (std::size_t i = 0; i + 1 < fields.items.size(); i += 2) {
    if (fields.text_at(i) == "event") kind = parse_event_name(fields.text_at(i + 1));
    take_field(fields.text_at(i), fields.text_at(i + 1), event);
  }
  if (!kind || event.lock.key.empty()) return std::nullopt;
  event.kind = *kind;
  if (event.lock.name.empty())
    event.lock.name =
        event.lock.key.starts_with(prefix) ? event.lock.key.substr(prefix.size()) : event.lock.key;
  return event;
}

Io<EventPage> read_events(Client& client, const std::string& prefix, const EventQuery& query,
                          Instant deadline, Interrupt interrupt) {
  const std::string key = events_key(prefix);
  EventPage page;
  page.position = query.position;
  std::string start = start_of(query);
  for (;;) {
    KLOCK_TRY(entries,
              client.command({"XRANGE", key, start, "+", "COUNT", k_batch_text}, deadline, interrupt));
    for (const Reply& entry : entries.items)
      if (auto event = parse_event_entry(entry, prefix)) page.events.push_back(*std::move(event));
    if (entries.items.empty()) return page;
    page.position = entries.items.back().text_at(0);
    if (entries.items.size() < k_batch) return page;
    start = id_after(page.position);
  }
}

}  // namespace klock::redis
