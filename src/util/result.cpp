// SPDX-License-Identifier: MIT
#include "util/result.hpp"

#include <cstring>

namespace klock {

tl::unexpected<Error> system_failure(const std::string& what, int code) {
  return failure(ErrorKind::system, what + ": " + std::strerror(code));
}

}  // namespace klock
