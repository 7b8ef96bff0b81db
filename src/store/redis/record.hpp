// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"
#include "lease/lock_state.hpp"
#include "store/redis/reply.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// The JSON that klock stores for other people, and the scripts' answers about holders. Reading never fails:
// other hosts wrote it, so whatever is not as it should be is left out.

// `mute`: his release wakes nobody.
std::string details_json(const LockName& lock, const Person& who, bool mute = false);

struct Details {
  std::string name;  // of the lock; empty: unknown
  Person who;
  bool mute = false;
};
Details parse_details(std::string_view json);

// "exclusive", "shared", "slots3": a mode in an entry.
std::string mode_text(Mode mode, std::size_t slots);
struct ModeText {
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;
};
ModeText parse_mode(std::string_view text);

std::string marker_json(const Person& who);
Marker parse_marker(std::string_view key, std::string_view json, std::int64_t pttl);

std::string request_json(const StopRequest& request, std::string_view id);

struct StoredRequest {
  StopRequest request;
  std::string id;  // of the hold it is meant for
};
std::optional<StoredRequest> parse_request(std::string_view json);

// An entry of the hash of holders (scripts/common.lua). nullopt: damaged, or none ("").
struct HoldEntry {
  std::int64_t since_ms = 0;
  std::string fence;
  std::string mode;
  std::int64_t min_hold_ms = 0;
  std::string state;  // k_run and the like
  std::string details;
};
constexpr const char* k_run = "0";
constexpr const char* k_cooldown = "1";
constexpr const char* k_left = "2";      // a run that has ended; it stays for those who have joined it
constexpr const char* k_script = "3";    // kept by a process for a script
constexpr const char* k_detached = "4";  // without any process
// What stands at the lock's key while several hold it.
constexpr const char* k_mark = "klock:shared";
std::optional<HoldEntry> parse_hold_entry(std::string_view entry);
std::string hold_entry_text(const HoldEntry& entry);

// An entry of the hash of waiters (scripts/common.lua). nullopt: damaged, or none ("").
struct WaitEntry {
  std::int64_t alive_until_ms = 0;
  std::int64_t since_ms = 0;
  bool polls = false;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;
  Details details;
};
std::optional<WaitEntry> parse_wait_entry(std::string_view entry);

// Who or what stands at the lock's key.
struct Occupant {
  Holder holder;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;
  std::string name;   // of the lock; empty: unknown
  bool mute = false;  // his release wakes nobody
};

// What is seen of one. Without an entry that can be read he is foreign, and has an id made of the digest.
struct Sighting {
  std::string_view key;
  std::string_view type;   // of the key
  std::string_view value;  // a token of klock's, or what else a string holds; or how it begins
  std::int64_t size = -1;  // of what the key holds; -1: unknown
  std::string_view digest;
  std::vector<std::string_view> members = {};  // of a hash or sorted set: some
  std::int64_t pttl = -1;                      // as the server gives it
  std::string_view hold_entry = {};            // of the hash of holders; "": none
  std::string_view wait_entry = {};  // of the hash of waiters: he has been granted the lock; "": none
  std::int64_t now_ms = 0;           // by the server's clock
};
Occupant occupant(const Sighting& seen);
// As describe() in common.lua tells it.
Occupant parse_occupant(std::string_view key, const Reply& answer, std::int64_t pttl);

}  // namespace klock::redis
