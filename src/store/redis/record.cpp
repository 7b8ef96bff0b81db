// SPDX-License-Identifier: MIT
#include "store/redis/record.hpp"

#include "lease/stored_json.hpp"
#include "store/redis/foreign.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace klock::redis {
namespace {

using Json = nlohmann::json;

constexpr std::size_t k_max_text = 1000;
constexpr std::size_t k_id_size = 12;  // as Token::id()

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr std::string_view k_slots = "slots";

template <class Entry>
void take_mode(std::string_view text, Entry& entry) {
  const ModeText mode = parse_mode(text);
  entry.mode = mode.mode;
  entry.slots = mode.slots;
}

// The blank-separated words in front of an entry.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  std::string_view next() {
    const auto end = text_.find(' ');
    if (end == std::string_view::npos) good_ = false;
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(std::min(text_.size(), word.size() + 1));
    return word;
  }
  template <class Number>
  Number number() {
    const std::string_view word = next();
    Number value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) good_ = false;
    return value;
  }
  std::string_view rest() const { return text_; }
  bool good() const { return good_; }

 private:
  std::string_view text_;
  bool good_ = true;
};

std::optional<Occupant> hold_occupant(std::string_view text, std::int64_t now_ms) {
  const auto entry = parse_hold_entry(text);
  if (!entry) return std::nullopt;
  Occupant result;
  result.holder.since_wall_ms = entry->since_ms;
  result.holder.held = Milliseconds(std::max<std::int64_t>(now_ms - entry->since_ms, 0));
  std::from_chars(entry->fence.data(), entry->fence.data() + entry->fence.size(), result.holder.fence);
  take_mode(entry->mode, result);
  result.holder.cooldown = entry->state == k_cooldown;
  Details details = parse_details(entry->details);
  result.mute = details.mute;
  result.name = std::move(details.name);
  result.holder.who = std::move(details.who);
  return result;
}

std::optional<Occupant> granted_occupant(std::string_view entry) {
  auto wait = parse_wait_entry(entry);
  if (!wait) return std::nullopt;
  Occupant result;
  result.mode = wait->mode;
  result.slots = wait->slots;
  result.name = std::move(wait->details.name);
  result.holder.who = std::move(wait->details.who);
  return result;
}

Occupant foreign_occupant(const Sighting& seen) {
  const ForeignKey key{seen.key, seen.type, seen.value, seen.size, seen.members};
  Occupant result;
  result.holder.foreign = true;
  result.holder.what = describe_foreign(key);
  result.holder.client = probable_client(key);
  return result;
}

}  // namespace

std::string details_json(const LockName& lock, const Person& who, bool mute) {
  Json json = {{"name", lock.name}, {"user", who.user}, {"host", who.host}, {"pid", who.pid}};
  if (!who.program.empty()) json["program"] = who.program;
  if (!who.message.empty()) json["message"] = who.message.substr(0, k_max_text);
  if (!who.origin.empty()) json["origin"] = who.origin;
  if (!who.command.empty()) json["command"] = who.command.substr(0, k_max_text);
  if (mute) json["mute"] = true;
  return dump(json);
}

Details parse_details(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  return {text_of(json, "name"), person_of(json), flag_of(json, "mute")};
}

std::string mode_text(Mode mode, std::size_t slots) {
  if (mode == Mode::slots) return std::string(k_slots) + std::to_string(slots);
  return std::string(mode_name(mode));
}

ModeText parse_mode(std::string_view text) {
  ModeText mode;
  if (text == "shared") mode.mode = Mode::shared;
  if (!text.starts_with(k_slots)) return mode;
  mode.mode = Mode::slots;
  text.remove_prefix(k_slots.size());
  std::from_chars(text.data(), text.data() + text.size(), mode.slots);
  return mode;
}

std::string marker_json(const Person& who) {
  return dump({{"user", who.user},
               {"host", who.host},
               {"pid", who.pid},
               {"program", who.program},
               {"message", who.message.substr(0, k_max_text)},
               {"since_ms", wall_ms()}});
}

Marker parse_marker(std::string_view key, std::string_view text, std::int64_t pttl) {
  const Json json = Json::parse(text, nullptr, false);
  Marker marker{std::string(key), person_of(json), number_of(json, "since_ms"), std::nullopt};
  if (pttl >= 0) marker.expires_in = Milliseconds(pttl);
  return marker;
}

std::string request_json(const StopRequest& request, std::string_view id) {
  return dump({{"by", request.by.substr(0, k_max_text)},
               {"reason", request.reason.substr(0, k_max_text)},
               {"id", std::string(id)}});
}

std::optional<StoredRequest> parse_request(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return StoredRequest{{text_of(json, "by"), text_of(json, "reason"), flag_of(json, "released")},
                       text_of(json, "id")};
}

std::optional<HoldEntry> parse_hold_entry(std::string_view text) {
  Words words(text);
  HoldEntry entry;
  entry.since_ms = words.number<std::int64_t>();
  const auto fence = words.number<std::uint64_t>();
  entry.fence = std::to_string(fence);
  entry.mode = words.next();
  entry.min_hold_ms = words.number<std::int64_t>();
  entry.state = words.next();
  if (!words.good()) return std::nullopt;
  entry.details = words.rest();
  return entry;
}

std::string hold_entry_text(const HoldEntry& entry) {
  return std::to_string(entry.since_ms) + " " + entry.fence + " " + entry.mode + " " +
         std::to_string(entry.min_hold_ms) + " " + entry.state + " " + entry.details;
}

std::optional<WaitEntry> parse_wait_entry(std::string_view entry) {
  Words words(entry);
  WaitEntry wait;
  wait.alive_until_ms = words.number<std::int64_t>();
  wait.since_ms = words.number<std::int64_t>();
  words.next();  // --ttl
  wait.polls = words.next() == "1";
  take_mode(words.next(), wait);
  if (!words.good()) return std::nullopt;
  wait.details = parse_details(words.rest());
  return wait;
}

Occupant occupant(const Sighting& seen) {
  auto known = hold_occupant(seen.hold_entry, seen.now_ms);
  if (!known) known = granted_occupant(seen.wait_entry);
  Occupant result = known ? *std::move(known) : foreign_occupant(seen);
  result.holder.id = (result.holder.foreign ? seen.digest : seen.value).substr(0, k_id_size);
  result.holder.fingerprint = seen.digest;
  if (seen.pttl >= 0) result.holder.expires_in = Milliseconds(seen.pttl);
  return result;
}

Occupant parse_occupant(std::string_view key, const Reply& answer, std::int64_t pttl) {
  enum { source, type, id, digest, size, now, entry };
  Sighting seen;
  seen.key = key;
  seen.type = answer.text_at(type);
  seen.value = answer.text_at(id);
  seen.size = answer.number_at(size);
  seen.digest = answer.text_at(digest);
  seen.pttl = pttl;
  seen.now_ms = answer.number_at(now);
  (answer.text_at(source) == "granted" ? seen.wait_entry : seen.hold_entry) = answer.text_at(entry);
  return occupant(seen);
}

}  // namespace klock::redis
