// SPDX-License-Identifier: MIT
#include "output/human_time.hpp"
#include "output/state_text.hpp"
#include "util/wall_time.hpp"

#include <nlohmann/json.hpp>

namespace klock {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ms_or_null(const std::optional<Milliseconds>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

Json pid_or_null(pid_t pid) {
  return pid > 0 ? Json(pid) : Json(nullptr);
}

const char* state_word(Occupancy occupancy) {
  switch (occupancy) {
    case Occupancy::free:
      return "free";
    case Occupancy::held:
      return "held";
    case Occupancy::cooldown:
      return "cooldown";
  }
  return "";
}

Json holder_json(const Holder& holder) {
  Json json{
      {"id", text_or_null(holder.id)},
      {"user", text_or_null(holder.who.user)},
      {"host", text_or_null(holder.who.host)},
      {"pid", pid_or_null(holder.who.pid)},
      {"program", text_or_null(holder.who.program)},
      {"message", text_or_null(holder.who.message)},
      {"since", holder.since_wall_ms > 0 ? text_or_null(utc_time(holder.since_wall_ms)) : Json(nullptr)},
      {"held_ms", ms_or_null(holder.held)},
      {"expires_in_ms", ms_or_null(holder.expires_in)},
      {"fence", holder.fence != 0 ? Json(holder.fence) : Json(nullptr)},
      {"cooldown", holder.cooldown},
      {"foreign", holder.foreign}};
  if (holder.servers != 0) json["servers"] = holder.servers;
  if (!holder.foreign) return json;
  json["what"] = text_or_null(holder.what);
  json["client"] = text_or_null(holder.client);
  return json;
}

Json waiter_json(const Waiter& waiter) {
  return {{"user", text_or_null(waiter.who.user)},
          {"host", text_or_null(waiter.who.host)},
          {"pid", pid_or_null(waiter.who.pid)},
          {"mode", std::string(mode_name(waiter.mode))},
          {"waiting_ms", ms_or_null(waiter.waiting)}};
}

Json lock_json(const LockState& state, const std::string& store) {
  Json json{
      {"name", state.lock.name},
      {"key", state.lock.key},
      {"store", store},
      {"state", state_word(state.occupancy)},
      {"mode", state.occupancy == Occupancy::held ? Json(std::string(mode_name(state.mode))) : Json(nullptr)},
      {"slots", state.slots != 0 ? Json(state.slots) : Json(nullptr)},
      {"holders", Json::array()},
      {"waiters", Json::array()}};
  if (state.servers != 0) json["servers"] = {{"configured", state.servers}, {"answered", state.answered}};
  for (const Holder& holder : state.holders) json["holders"].push_back(holder_json(holder));
  for (const Waiter& waiter : state.waiters) json["waiters"].push_back(waiter_json(waiter));
  return json;
}

}  // namespace

std::string status_json(const std::vector<LockState>& states, const std::string& store) {
  Json json = Json::array();
  for (const LockState& state : states) json.push_back(lock_json(state, store));
  // Pure ASCII: what other hosts wrote must not reach a terminal as it is.
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string marker_json(const LockName& lock, const std::string& store, const std::string& once,
                        const std::optional<Marker>& marker) {
  const Marker known = marker.value_or(Marker{});
  const Json json{
      {"name", lock.name},
      {"key", lock.key},
      {"store", store},
      {"once", once},
      {"completed", marker.has_value()},
      {"user", text_or_null(known.who.user)},
      {"host", text_or_null(known.who.host)},
      {"pid", pid_or_null(known.who.pid)},
      {"program", text_or_null(known.who.program)},
      {"message", text_or_null(known.who.message)},
      {"since", known.since_wall_ms > 0 ? text_or_null(utc_time(known.since_wall_ms)) : Json(nullptr)},
      {"expires_in_ms", ms_or_null(known.expires_in)}};
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace klock
