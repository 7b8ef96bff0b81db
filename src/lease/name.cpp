// SPDX-License-Identifier: MIT
#include "lease/name.hpp"

#include <array>
#include <cstdint>

namespace klock {
namespace {

constexpr std::size_t k_longest_name = 200;

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Beyond ASCII: the C1 controls, white space and line ends (Unicode category Z), and what is invisible or
// turns the direction of the text.
constexpr std::array<Range, 12> k_unwelcome{{{0x80, 0x9f},
                                             {0x200b, 0x200f},
                                             {0x202a, 0x202e},
                                             {0x2060, 0x206f},
                                             {0xa0, 0xa0},
                                             {0x1680, 0x1680},
                                             {0x2000, 0x200a},
                                             {0x2028, 0x2029},
                                             {0x202f, 0x202f},
                                             {0x205f, 0x205f},
                                             {0x3000, 0x3000},
                                             {0xfeff, 0xfeff}}};

// Decodes one code point at the front of `text` and takes it off; false: not UTF-8.
bool take_code_point(std::string_view& text, std::uint32_t& code) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return false;
  code = length == 1 ? lead : lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return false;
    code = code << 6 | (next & 0x3f);
  }
  text.remove_prefix(length);
  constexpr std::array<std::uint32_t, 5> k_smallest{0, 0, 0x80, 0x800, 0x10000};
  return code >= k_smallest[length] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

bool welcome(std::uint32_t code) {
  if (code <= 0x20 || code == 0x7f) return false;
  for (const Range& range : k_unwelcome)
    if (code >= range.first && code <= range.last) return false;
  return true;
}

// Keys such as "{x}:queue" and "a{x}:klock:queue" belong to other locks, or to a prefix
// (store/redis/keys.hpp).
bool looks_auxiliary(std::string_view key) {
  const auto colon = key.rfind(':');
  if (colon == std::string_view::npos || hash_tag(key).empty()) return false;
  const std::string_view rest = key.substr(key.rfind('}') + 1);
  if (rest.starts_with(":klock:once:")) return true;
  if (key.starts_with('{') && (rest.starts_with(":once:") || rest.starts_with(":stats:"))) return true;
  const std::string_view part = key.substr(colon + 1);
  const std::string_view owner = key.substr(0, colon);
  for (const std::string_view known : {"holders", "waiters", "queue", "fence", "requests", "readers", "slots",
                                       "joined", "index", "events", "groups"})
    if (part == known) return (owner.starts_with('{') && owner.ends_with('}')) || owner.ends_with(":klock");
  return false;
}

Status check_word(std::string_view word, const std::string& subject) {
  if (word.empty()) return failure(ErrorKind::usage, subject + " is empty", "is a shell variable unset?");
  if (word.size() > k_longest_name) return failure(ErrorKind::usage, subject + " is longer than 200 bytes");
  for (std::string_view rest = word; !rest.empty();) {
    std::uint32_t code = 0;
    if (!take_code_point(rest, code)) return failure(ErrorKind::usage, subject + " is not valid UTF-8");
    if (!welcome(code))
      return failure(ErrorKind::usage, subject + " contains a space or a control character",
                     "use letters, digits and / . : - _ @ + =");
  }
  return {};
}

}  // namespace

std::string_view hash_tag(std::string_view key) {
  const auto open = key.find('{');
  if (open == std::string_view::npos) return {};
  const auto close = key.find('}', open + 1);
  if (close == std::string_view::npos) return {};
  return key.substr(open + 1, close - open - 1);
}

Status check_lock_name(std::string_view name) {
  return check_word(name, "the lock name");
}

Status check_once_key(std::string_view key) {
  return check_word(key, "the key of once-only work");
}

Result<LockName> make_lock_name(const std::string& prefix, const std::string& name,
                                const std::optional<std::string>& key) {
  KLOCK_CHECK(check_lock_name(name));
  LockName lock{name, key.value_or(prefix + name)};
  if (lock.key.empty()) return failure(ErrorKind::usage, "--key is empty");
  if (lock.key.find_first_of("{}") != std::string::npos && hash_tag(lock.key).empty())
    return failure(ErrorKind::usage, "braces in a lock name must form a hash tag, as in job:{db1}");
  if (looks_auxiliary(lock.key))
    return failure(ErrorKind::usage, "klock keeps its own records under such names", "choose another one");
  return lock;
}

}  // namespace klock
