// SPDX-License-Identifier: MIT
#include "support/eventually.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace klock::test {

int slow_factor() {
  const char* slow = std::getenv("KLOCK_TEST_SLOW");
  return slow != nullptr ? std::max(1, std::atoi(slow)) : 1;
}

bool eventually(const std::function<bool()>& condition, int limit_ms) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms) * slow_factor();
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= limit) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace klock::test
