// SPDX-License-Identifier: MIT
#include "lease/event_json.hpp"

#include "lease/stored_json.hpp"
#include "util/json_text.hpp"
#include "util/wall_time.hpp"

#include <nlohmann/json.hpp>

namespace klock {
namespace {

constexpr std::size_t k_longest_text = 2000;

class Line {
 public:
  void add(const char* member, std::string_view value) {
    if (!value.empty()) text_.add(member, value, k_longest_text);
  }
  void add(const char* member, std::uint64_t value) {
    if (value != 0) text_.add_unsigned(member, value);
  }
  void add(const char* member, const std::optional<Milliseconds>& value) {
    if (value) text_.add(member, std::int64_t{value->count()});
  }
  std::string take() { return text_.take(); }

 private:
  JsonText text_;
};

std::optional<Milliseconds> ms_of(const nlohmann::json& json, const char* member) {
  if (!json.contains(member)) return std::nullopt;
  return Milliseconds(number_of(json, member));
}

}  // namespace

std::string event_json(const Event& event, std::string_view store) {
  Line line;
  line.add("time", utc_time_us(event.wall_us));
  line.add("event", event_name(event.kind));
  line.add("name", event.lock.name);
  line.add("key", event.lock.key);
  line.add("store", store);
  line.add("mode", mode_name(event.mode));
  line.add("slots", std::uint64_t{event.slots});
  line.add("id", event.id);
  line.add("fence", event.fence);
  line.add("user", event.who.user);
  line.add("host", event.who.host);
  line.add("pid", event.who.pid > 0 ? static_cast<std::uint64_t>(event.who.pid) : 0);
  line.add("program", event.who.program);
  line.add("command", event.who.command);
  line.add("message", event.who.message);
  line.add("waited_ms", event.waited);
  line.add("held_ms", event.held);
  line.add("late_ms", event.late);
  line.add("by", event.by);
  line.add("reason", event.reason);
  return line.take();
}

std::optional<Event> parse_event(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto kind = json.is_object() ? parse_event_name(text_of(json, "event")) : std::nullopt;
  const auto time = json.is_object() ? parse_utc_time_us(text_of(json, "time")) : std::nullopt;
  if (!kind || !time) return std::nullopt;
  Event event;
  event.wall_us = *time;
  event.kind = *kind;
  event.lock = {text_of(json, "name"), text_of(json, "key")};
  event.mode = mode_of(json, "mode");
  event.slots = static_cast<std::size_t>(number_of(json, "slots"));
  event.id = text_of(json, "id");
  event.fence = static_cast<std::uint64_t>(number_of(json, "fence"));
  event.who = person_of(json);
  event.waited = ms_of(json, "waited_ms");
  event.held = ms_of(json, "held_ms");
  event.late = ms_of(json, "late_ms");
  event.by = text_of(json, "by");
  event.reason = text_of(json, "reason");
  return event;
}

}  // namespace klock
