// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace klock::redis {

// What redis.sha1hex(type .. content) gives in a script: names what stands at a lock's key without telling
// it.
std::string digest_of(std::string_view type, std::string_view content);

}  // namespace klock::redis
