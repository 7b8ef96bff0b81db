// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace klock::redis {

// One RESP2 value.
struct Reply {
  enum class Type : std::uint8_t { nil, status, error, string, integer, array };
  Type type = Type::nil;
  std::string text;          // status, error, string
  std::int64_t integer = 0;  // integer
  std::vector<Reply> items;  // array

  bool is_error() const { return type == Type::error; }
  // Items as what they should be. What a server sends is untrusted: anything missing or of another type is
  // empty or 0.
  std::string_view text_at(std::size_t index) const;
  std::int64_t number_at(std::size_t index) const;  // an integer, or a string of digits
  const Reply& at(std::size_t index) const;
};

// Turns a stream of bytes into replies. Size, nesting and number of elements are bounded, so that no server
// can make us use up the memory.
class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  void feed(const char* bytes, std::size_t size);
  // nullopt: more bytes are needed. Errors (protocol) are final: the stream cannot be read any further.
  Result<std::optional<Reply>> next();

 private:
  redisReader* reader_;
  std::size_t pending_ = 0;  // bytes fed since the last complete reply
};

}  // namespace klock::redis
