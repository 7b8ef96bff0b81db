// SPDX-License-Identifier: MIT
#include "config/duration.hpp"
#include "fuzz/fuzz.hpp"

using namespace klock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto duration = parse_duration(fuzz::text_of(data, size));
  if (!duration) return 0;
  fuzz::require(*duration >= Duration::zero() && *duration <= std::chrono::hours(24 * 365), "0 to 365 d");
  fuzz::require(parse_duration(format_duration(*duration)) == duration, "what is written means the same");
  return 0;
}
