// SPDX-License-Identifier: MIT
#include "fuzz/fuzz.hpp"
#include "output/state_text.hpp"
#include "store/redis/foreign.hpp"
#include "store/redis/record.hpp"

#include <string>

using namespace klock;
using namespace klock::redis;

// What other hosts have stored about themselves: entries of holders and waiters, orders to stop, markers.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto entry = parse_hold_entry(text)) {
    const auto again = parse_hold_entry(hold_entry_text(*entry));
    fuzz::require(again && again->details == entry->details && again->fence == entry->fence &&
                      again->min_hold_ms == entry->min_hold_ms,
                  "an entry that is written again means the same");
  }
  parse_wait_entry(text);
  parse_request(text);
  parse_marker("klock:x:once:y", text, 1000);
  const Details details = parse_details(text);
  const Details again = parse_details(details_json({details.name, {}}, details.who, details.mute));
  fuzz::require(again.name == details.name && again.who.host == details.who.host &&
                    again.who.message == details.who.message && again.mute == details.mute,
                "details that are written again mean the same");
  for (const char* type : {"string", "hash", "zset", "list"}) {
    Sighting seen;
    seen.key = "klock:x";
    seen.type = type;
    seen.value = text;
    seen.digest = "d";
    seen.members = {text.substr(0, size / 2), text.substr(size / 2)};
    seen.hold_entry = text;
    seen.wait_entry = text;
    occupant(seen);
    probable_client({seen.key, seen.type, seen.value, seen.size, seen.members});
  }
  return 0;
}
