// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// Locks of other programs, told from what stands at the key. None says whose it is: what is here is told by
// the shapes that common clients write, and is a guess.

struct ForeignKey {
  std::string_view key;
  std::string_view type;                       // as TYPE says
  std::string_view value;                      // of a string, or how it begins
  std::int64_t size = -1;                      // of what the key holds; -1: unknown
  std::vector<std::string_view> members = {};  // of a hash its fields, of a sorted set its members: some
};

// "string "abc"", "hash with 1 field "x:7"": for people, not escaped yet. What may be a token of klock's is
// cut, so that it is not given away.
std::string describe_foreign(const ForeignKey& seen);

// The programs that write such locks: "redsync", "redis-py or klock without its details". "": none known.
std::string probable_client(const ForeignKey& seen);

// How a release of that program wakes those who wait for the lock.
struct Signal {
  std::string channel;  // to PUBLISH to
  std::string message;
};
std::optional<Signal> signal_of(std::string_view key, std::string_view client);
// python-redis-lock's, by the key alone: that program lets its users choose what they write. nullopt: not its
// kind of key.
std::optional<std::string> signal_list_of(std::string_view key);

}  // namespace klock::redis
