// SPDX-License-Identifier: MIT
#include "output/event_text.hpp"

#include "lease/event_json.hpp"
#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "output/message.hpp"
#include "util/wall_time.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace klock {
namespace {

constexpr std::size_t k_kind_width = 12;  // "renewed_late"
constexpr std::size_t k_longest = 500;

// What was waited for nothing is not worth a word.
std::string times(const Event& event) {
  std::string text;
  if (event.waited && event.waited->count() > 0) text += ", waited " + human_duration(*event.waited);
  if (event.held) text += ", held " + human_duration(*event.held);
  if (event.late && event.kind == EventKind::reconnected)
    text += ", after " + human_duration(*event.late);
  else if (event.late)
    text += ", " + human_duration(*event.late) + " after the last renewal";
  return text;
}

}  // namespace

std::string event_text(const Event& event) {
  std::string kind(event_name(event.kind));
  kind.resize(std::max(k_kind_width, kind.size()), ' ');
  std::string line = local_time(event.wall_ms()) + "  " + kind + "  " + escape_text(event.lock.name) + "  ";
  const bool known = !event.who.user.empty() || !event.who.host.empty() || event.who.pid > 0;
  line += known ? describe_person(event.who) : "id " + escape_text(event.id, 64);
  if (event.mode == Mode::slots && event.slots != 0)
    line += ", " + std::to_string(event.slots) + " slots";
  else if (event.mode != Mode::exclusive)
    line += ", " + std::string(mode_name(event.mode));
  line += times(event);
  if (event.kind == EventKind::acquired && event.fence != 0) line += ", fence " + std::to_string(event.fence);
  if (!event.by.empty()) line += ", by " + escape_text(event.by, k_longest);
  if (!event.reason.empty()) line += ", reason: " + escape_text(event.reason, k_longest);
  if (!event.who.command.empty()) line += ", command: " + escape_text(event.who.command, k_longest);
  if (!event.who.message.empty()) line += ": " + escape_text(event.who.message, k_longest);
  return line + "\n";
}

std::string event_json_line(const Event& event) {
  using Json = nlohmann::ordered_json;
  const Json json = Json::parse(event_json(event), nullptr, false);
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace klock
