// SPDX-License-Identifier: MIT
#pragma once

namespace klock::redis {

// A Lua script as EVALSHA and EVAL want it.
struct Script {
  const char* sha;  // SHA-1 of `text`
  const char* text;
};

}  // namespace klock::redis
