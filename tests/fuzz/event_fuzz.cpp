// SPDX-License-Identifier: MIT
#include "fuzz/fuzz.hpp"
#include "lease/event_json.hpp"
#include "output/event_text.hpp"

#include <string>

using namespace klock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto event = parse_event(fuzz::text_of(data, size));
  if (!event) return 0;
  const std::string shown = event_text(*event);
  for (const char c : shown.substr(0, shown.size() - 1))
    fuzz::require(static_cast<unsigned char>(c) >= 0x20, "no control characters are shown");
  fuzz::require(shown.ends_with('\n'), "an event is shown as a line");
  const std::string line = event_json(*event);
  fuzz::require(line.find('\n') == std::string::npos, "an event is one line");
  const auto again = parse_event(line);
  fuzz::require(again && event_json(*again) == line, "an event that is written again is the same");
  return 0;
}
