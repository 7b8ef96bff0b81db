// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

namespace klock::test {

// KLOCK_TEST_SLOW, 1 without it: how much longer than usual a test may take (sanitizers).
int slow_factor();

// So much longer.
template <class Duration>
Duration stretched(Duration usual) {
  return usual * slow_factor();
}

// Polls until `condition` holds; false after the limit, which KLOCK_TEST_SLOW stretches (sanitizers).
bool eventually(const std::function<bool()>& condition, int limit_ms = 10'000);

}  // namespace klock::test
