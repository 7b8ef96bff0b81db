// SPDX-License-Identifier: MIT
#include "fuzz/fuzz.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/event_log.hpp"
#include "store/redis/record.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/statistics.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace klock;
using namespace klock::redis;

namespace {

// The replies in `bytes`, which arrive in pieces of `size`.
std::vector<Reply> replies_in(std::string_view bytes, std::size_t size) {
  std::vector<Reply> replies;
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const std::string_view piece = bytes.substr(at, size);
    reader.feed(piece.data(), piece.size());
    for (;;) {
      auto next = reader.next();
      if (!next) return replies;
      if (!*next) break;
      replies.push_back(std::move(**next));
    }
  }
  return replies;
}

bool same(const Reply& one, const Reply& other) {
  return one.type == other.type && one.text == other.text && one.integer == other.integer &&
         std::equal(one.items.begin(), one.items.end(), other.items.begin(), other.items.end(), same);
}

// Whatever a server sends where these are expected.
void read_as_everything(const Reply& reply) {
  const SlotMap map(reply, RedisUrl{});
  for (const RedisUrl& master : map.masters()) fuzz::require(master.port != 0, "servers have ports");
  parse_event_entry(reply, "klock:");
  parse_statistics(reply);
  parse_occupant("klock:x", reply, 1);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  const auto whole = replies_in(bytes, bytes.size() + 1);
  const auto pieces = replies_in(bytes, 3);
  fuzz::require(std::equal(whole.begin(), whole.end(), pieces.begin(), pieces.end(), same),
                "pieces mean the same as the whole");
  for (const Reply& reply : whole) read_as_everything(reply);
  return 0;
}
