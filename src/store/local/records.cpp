// SPDX-License-Identifier: MIT
#include "store/local/records.hpp"

#include "lease/stored_json.hpp"
#include "store/local/lock_directory.hpp"
#include "util/json_text.hpp"
#include "util/procfs.hpp"

#include <nlohmann/json.hpp>

#include <sha2.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace klock {
namespace {

using nlohmann::json;

constexpr off_t k_hold_at = 0;
constexpr off_t k_stop_at = 4096;
constexpr off_t k_fence_at = 8128;
constexpr off_t k_waits_at = 8192;
constexpr std::size_t k_region = 4096;
constexpr std::size_t k_stop_size = 4032;
constexpr std::size_t k_fence_size = 64;
constexpr std::size_t k_wait_size = 512;
constexpr Ticket k_wait_slots = 1024;

constexpr off_t k_seats_at = k_waits_at + k_wait_slots * static_cast<off_t>(k_wait_size);
constexpr off_t k_seat_size = 8192;

// Where the records of a hold begin.
off_t base_of(Seat seat) {
  return seat == k_alone ? 0 : k_seats_at + seat * k_seat_size;
}

off_t wait_at(Ticket ticket) {
  return k_waits_at + static_cast<off_t>(ticket % k_wait_slots) * static_cast<off_t>(k_wait_size);
}

struct PersonLimits {
  std::size_t user, host, program, origin;
};

void add_person(JsonText& text, const Person& who, const PersonLimits& limits) {
  text.add("user", who.user, limits.user);
  text.add("host", who.host, limits.host);
  text.add("pid", std::int64_t{who.pid});
  text.add("program", who.program, limits.program);
  text.add("origin", who.origin, limits.origin);
}

std::optional<json> read_object(const LockFile& file, off_t offset, std::size_t limit) {
  const std::string text = file.read(offset, limit);
  if (text.empty()) return std::nullopt;
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  return object;
}

void add_mode(JsonText& text, Mode mode) {
  if (mode != Mode::exclusive) text.add("mode", mode_name(mode), 16);
}

std::optional<Milliseconds> elapsed_since(std::int64_t instant_ns) {
  const Duration elapsed = BootClock::now().time_since_epoch() - Duration(instant_ns);
  if (instant_ns == 0 || elapsed < Duration::zero()) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(elapsed);
}

}  // namespace

Status write_hold(LockFile& file, const HoldRecord& record, Seat seat) {
  JsonText text;
  text.add("id", record.id, 64);
  text.add("proof", record.proof, 64);
  text.add("name", record.name, 600);
  text.add("key", record.key, 1200);
  add_person(text, record.who, {128, 255, 255, 255});
  text.add("since_ms", record.since_wall_ms);
  text.add("acquired_ns", record.acquired_ns);
  text.add_unsigned("fence", record.fence);
  add_mode(text, record.mode);
  if (record.slots != 0) text.add_unsigned("slots", record.slots);
  if (record.reserved_until_ns != 0) {
    text.add("reserved_until_ns", record.reserved_until_ns);
    if (record.detached) text.add_flag("detached", true);
    text.add("boot_id", record.boot_id, 64);
  }
  if (record.left) text.add_flag("left", true);
  constexpr std::size_t k_frame = 20;  // of the last member, and the NUL
  text.add("message", record.who.message, k_region - k_frame - text.size());
  return file.write(base_of(seat) + k_hold_at, text.take());
}

Status clear_hold(LockFile& file, Seat seat) {
  return file.write(base_of(seat) + k_hold_at, "");
}

std::optional<HoldRecord> read_hold(const LockFile& file, Seat seat) {
  const auto object = read_object(file, base_of(seat) + k_hold_at, k_region);
  if (!object) return std::nullopt;
  HoldRecord record;
  record.id = text_of(*object, "id");
  record.proof = text_of(*object, "proof");
  record.name = text_of(*object, "name");
  record.key = text_of(*object, "key");
  record.who = person_of(*object);
  record.since_wall_ms = number_of(*object, "since_ms");
  record.acquired_ns = number_of(*object, "acquired_ns");
  record.fence = static_cast<std::uint64_t>(number_of(*object, "fence"));
  record.mode = mode_of(*object, "mode");
  record.slots = static_cast<std::size_t>(number_of(*object, "slots"));
  record.reserved_until_ns = number_of(*object, "reserved_until_ns");
  record.detached = flag_of(*object, "detached");
  record.boot_id = text_of(*object, "boot_id");
  record.left = flag_of(*object, "left");
  if (record.id.empty()) return std::nullopt;
  return record;
}

Seat seat_records(const LockFile& file) {
  const off_t size = file.size();
  return size <= k_seats_at ? 0 : (size - k_seats_at + k_seat_size - 1) / k_seat_size;
}

Status write_fence(LockFile& file, std::uint64_t fence) {
  return file.write(k_fence_at, std::to_string(fence));
}

std::uint64_t read_fence(const LockFile& file) {
  const std::string text = file.read(k_fence_at, k_fence_size);
  std::uint64_t fence = 0;
  std::from_chars(text.data(), text.data() + text.size(), fence);
  return fence;
}

Status write_wait(LockFile& file, const WaitRecord& record) {
  JsonText text;
  text.add("ticket", record.ticket);
  text.add("since_ns", record.since_ns);
  if (record.overtaken) text.add_flag("overtaken", true);
  add_mode(text, record.mode);
  add_person(text, record.who, {48, 80, 80, 100});
  return file.write(wait_at(record.ticket), text.take());
}

std::optional<WaitRecord> read_wait(const LockFile& file, Ticket ticket) {
  const auto object = read_object(file, wait_at(ticket), k_wait_size);
  // The slot may hold an earlier waiter's record: ours to find has the ticket in it.
  if (!object || !object->contains("ticket") || number_of(*object, "ticket") != ticket) return std::nullopt;
  return WaitRecord{ticket, person_of(*object), mode_of(*object, "mode"), number_of(*object, "since_ns"),
                    flag_of(*object, "overtaken")};
}

Status write_stop(LockFile& file, const StopRecord& record, Seat seat) {
  JsonText text;
  text.add("id", record.id, 64);
  text.add("by", record.request.by, 512);
  text.add_flag("removed", record.removed);
  if (record.request.released) text.add_flag("released", true);
  text.add("reason", record.request.reason, 2000);
  return file.write(base_of(seat) + k_stop_at, text.take());
}

std::optional<StopRecord> read_stop(const LockFile& file, const std::string& id, Seat seat) {
  const auto object = read_object(file, base_of(seat) + k_stop_at, k_stop_size);
  if (!object || text_of(*object, "id") != id) return std::nullopt;
  return StopRecord{id,
                    {text_of(*object, "by"), text_of(*object, "reason"), flag_of(*object, "released")},
                    flag_of(*object, "removed")};
}

std::optional<Instant> reserved_until(const LockFile& file, const HoldRecord& record, Seat seat) {
  if (record.reserved_until_ns == 0) return std::nullopt;
  constexpr Duration k_longest = std::chrono::hours(24 * 366);  // more than that is damage
  const Instant until{Duration(record.reserved_until_ns)};
  const Duration left = until - BootClock::now();
  if (left <= Duration::zero() || left > k_longest || record.boot_id != boot_id()) return std::nullopt;
  if (!record.detached && read_stop(file, record.id, seat)) return std::nullopt;
  return until;
}

std::optional<Instant> detached_until(const LockFile& file, const HoldRecord& record, Seat seat) {
  return record.detached ? reserved_until(file, record, seat) : std::nullopt;
}

void reserve(HoldRecord& record, Instant until) {
  record.reserved_until_ns = until.time_since_epoch().count();
  record.boot_id = boot_id();
}

Holder to_holder(const std::optional<HoldRecord>& record) {
  Holder holder;
  if (!record) return holder;
  holder.id = record->id;
  holder.fingerprint = record->id;
  holder.who = record->who;
  holder.since_wall_ms = record->since_wall_ms;
  holder.held = elapsed_since(record->acquired_ns);
  holder.fence = record->fence;
  return holder;
}

Holder to_holder(const HoldRecord& record, Instant until) {
  Holder holder = to_holder(record);
  holder.expires_in = std::chrono::ceil<Milliseconds>(until - BootClock::now());
  return holder;
}

bool belongs_to(const HoldRecord& record, std::string_view file_name) {
  return lock_file_name(record.key) == file_name;
}

std::string proof_of(const Token& token) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  SHA256Data(reinterpret_cast<const std::uint8_t*>(token.value.data()), token.value.size(), digest.data());
  return digest.data();
}

Joiner joiner_of(const Token& token) {
  const std::string proof = proof_of(token);
  Joiner joiner = 0;
  std::from_chars(proof.data(), proof.data() + k_joiner_bits / 4, joiner, 16);
  return joiner;
}

}  // namespace klock
