// SPDX-License-Identifier: MIT
#include "util/random.hpp"

#include <sys/random.h>

#include <array>
#include <cerrno>

namespace klock {

Result<std::string> random_hex128() {
  std::array<unsigned char, 16> bytes{};
  // Requests of up to 256 bytes are never interrupted or cut short once the pool is seeded (getrandom(2)).
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_failure("cannot get random bytes for the token", errno);
  static constexpr char k_digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(32);
  for (const unsigned char byte : bytes) {
    hex += k_digits[byte >> 4];
    hex += k_digits[byte & 15];
  }
  return hex;
}

std::uint64_t random_below(std::uint64_t limit) {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) return 0;
  return value % limit;
}

}  // namespace klock
