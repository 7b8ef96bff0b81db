// SPDX-License-Identifier: MIT
#include "store/redis/foreign.hpp"

#include <algorithm>

namespace klock::redis {
namespace {

constexpr std::size_t k_max_shown = 100;
constexpr std::size_t k_members_shown = 2;
constexpr std::size_t k_id_size = 12;  // as Token::id()

constexpr const char* k_redisson = "Redisson";
constexpr const char* k_redisson_readers = "Redisson (read lock)";
constexpr const char* k_redisson_writer = "Redisson (write lock)";
constexpr const char* k_semaphore = "redis-semaphore";
constexpr std::string_view k_python_prefix = "lock:";

constexpr std::string_view k_digits = "0123456789";
constexpr std::string_view k_hex = "0123456789abcdef";
constexpr std::string_view k_any_hex = "0123456789abcdefABCDEF";
constexpr std::string_view k_base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view k_base64_url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

bool is_hex_token(std::string_view text) {
  return text.size() == 32 && consists_of(text, k_hex);
}

// A time-based one, without its dashes: 1 in 64 of random texts look the same.
bool is_uuid1(std::string_view text) {
  return is_hex_token(text) && text[12] == '1' && consists_of(text.substr(16, 1), "89ab");
}

bool is_dashed_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : k_any_hex.find(text[i]) == std::string_view::npos) return false;
  }
  return true;
}

// `count` characters in all, `padding` of them "=".
bool is_base64(std::string_view text, std::size_t count, std::size_t padding) {
  return text.size() == count && consists_of(text.substr(0, count - padding), k_base64) &&
         text.substr(count - padding) == std::string_view("==").substr(0, padding);
}

// UUID:THREAD, of a write lock followed by :write.
bool is_redisson_owner(std::string_view field) {
  constexpr std::size_t k_uuid = 36;
  if (field.ends_with(":write")) field.remove_suffix(6);
  return field.size() > k_uuid + 1 && field[k_uuid] == ':' && is_dashed_uuid(field.substr(0, k_uuid)) &&
         consists_of(field.substr(k_uuid + 1), k_digits);
}

std::string client_of_string(const ForeignKey& seen) {
  const std::string_view value = seen.value;
  if (seen.size != static_cast<std::int64_t>(value.size())) return {};
  const bool python = seen.key.starts_with(k_python_prefix);
  if (value.starts_with("ADDED:") && value.find('@') != std::string_view::npos) return "ShedLock";
  if (is_uuid1(value)) return "redis-py";
  if (is_hex_token(value)) return "node-redlock, or klock without its details";
  if (is_dashed_uuid(value))
    return seen.key.starts_with("mutex:") ? k_semaphore : "redlock-rb, RedLock.net or redis-semaphore";
  if (is_base64(value, 24, 2)) return "redsync";
  if (is_base64(value, 44, 1)) return "Symfony";
  if (python && (is_base64(value, 24, 0) || value.size() == 16)) return "python-redis-lock";
  if (value.size() == 22 && consists_of(value, k_base64_url)) return "bsm/redislock";
  return {};
}

std::string client_of_hash(const ForeignKey& seen) {
  bool owned = false;
  bool read_write = false;
  bool writer = false;
  for (const std::string_view field : seen.members) {
    if (field == "mode") {
      read_write = true;
    } else if (is_redisson_owner(field)) {
      owned = true;
      writer |= field.ends_with(":write");
    } else {
      return {};
    }
  }
  if (!owned) return {};
  return writer ? k_redisson_writer : read_write ? k_redisson_readers : k_redisson;
}

std::string client_of_sorted_set(const ForeignKey& seen) {
  const auto all = [&](auto matches) {
    return !seen.members.empty() && std::all_of(seen.members.begin(), seen.members.end(), matches);
  };
  if (all([](std::string_view member) { return member == "__write__" || is_base64(member, 44, 1); }))
    return "Symfony";
  return all(is_dashed_uuid) ? k_semaphore : "";
}

std::string quoted(std::string_view text, bool whole) {
  return '"' + std::string(text.substr(0, k_max_shown)) + '"' +
         (whole && text.size() <= k_max_shown ? "" : "...");
}

// "hash with 1 field", "sorted set with 2 members"
std::string counted(std::string_view type, std::int64_t size) {
  std::string text(type == "zset" ? "sorted set" : type);
  if (size < 0) return text;
  const bool one = size == 1;
  const char* unit = type == "hash"     ? one ? " field" : " fields"
                     : type == "list"   ? one ? " element" : " elements"
                     : type == "stream" ? one ? " entry" : " entries"
                     : one              ? " member"
                                        : " members";
  return text + " with " + std::to_string(size) + unit;
}

// {NAME}, unless it has a tag of its own.
std::string tagged(const char* before, std::string_view key) {
  const bool has_tag = key.find('{') != std::string_view::npos;
  return before + (has_tag ? std::string(key) : "{" + std::string(key) + "}");
}

}  // namespace

std::string describe_foreign(const ForeignKey& seen) {
  if (seen.type == "string") {
    const std::string_view value = is_hex_token(seen.value) ? seen.value.substr(0, k_id_size) : seen.value;
    return "string " + quoted(value, seen.size <= static_cast<std::int64_t>(value.size()));
  }
  std::string text = counted(seen.type, seen.size);
  const std::size_t shown = std::min(seen.members.size(), k_members_shown);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? " " : ", ") + quoted(seen.members[i], true);
  if (shown < seen.members.size()) text += ", ...";
  return text;
}

std::string probable_client(const ForeignKey& seen) {
  if (seen.type == "string") return client_of_string(seen);
  if (seen.type == "hash") return client_of_hash(seen);
  if (seen.type == "zset") return client_of_sorted_set(seen);
  return {};
}

std::optional<Signal> signal_of(std::string_view key, std::string_view client) {
  if (client == k_redisson) return Signal{tagged("redisson_lock__channel:", key), "0"};
  // 1 wakes all who wait, as several may read.
  if (client == k_redisson_readers) return Signal{tagged("redisson_rwlock:", key), "0"};
  if (client == k_redisson_writer) return Signal{tagged("redisson_rwlock:", key), "1"};
  return std::nullopt;
}

std::optional<std::string> signal_list_of(std::string_view key) {
  if (!key.starts_with(k_python_prefix)) return std::nullopt;
  return "lock-signal:" + std::string(key.substr(k_python_prefix.size()));
}

}  // namespace klock::redis
