// SPDX-License-Identifier: MIT
#include "fuzz/fuzz.hpp"
#include "lease/name.hpp"
#include "output/escape.hpp"
#include "output/shell_quote.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/keys.hpp"

#include <string>

using namespace klock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::require(terminal_safe(terminal_safe(text)) == terminal_safe(text), "what is safe stays as it is");
  for (const char c : escape_text(text))
    fuzz::require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "no control characters are shown");
  const std::string word = shell_quoted(text);
  fuzz::require(!word.empty(), "an empty word is one too");

  if (!check_lock_name(text)) return 0;
  fuzz::require(!text.empty() && text.size() <= 200, "1 to 200 bytes");
  fuzz::require(escape_text(text).find("\\x") == std::string::npos || text.find('\\') != std::string::npos,
                "names are valid UTF-8");
  const auto lock = make_lock_name("klock:", text, {});
  if (!lock) return 0;
  const redis::LockKeys keys(lock->key, "klock:");
  const std::uint16_t slot = redis::slot_of(keys.key);
  for (const std::string_view key : keys.own("once"))
    fuzz::require(key == "once" || redis::slot_of(key) == slot, "all keys of a lock lie in one slot");
  return 0;
}
