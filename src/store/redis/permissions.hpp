// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/redis/reply.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// What a command is needed for.
enum class Need : std::uint8_t {
  lock,      // taking, renewing and releasing
  scripts,   // likewise, with all that belongs to it
  queue,     // what they use for that
  plain,     // instead of scripts
  channels,  // waking those who wait
  index,     // noting the lock for `klock list`
  log,       // noting events, and `klock log`
  status     // `klock status` and `klock list`
};

// A command that klock uses, in a form that has no effect on a server without the key. The server looks at
// the user's rights first, so that its answer tells them, also where ACL DRYRUN is missing or forbidden.
struct Trial {
  Need need;
  std::vector<std::string> words;
  std::string touches;         // the key or channel, as people know it: "{klock:NAME}:holders"; empty: none
  bool on_common_key = false;  // one of the prefix, which lies in another slot of a Cluster than the lock's
};

// For a lock of a name that nobody uses, `name`. To be sent in this order, as the last commands of a
// connection: those for the lock end with a subscription.
std::vector<Trial> trials(const std::string& prefix, const std::string& name);

// Whether klock may do all that, and whether the server takes writes. `replies`: to each of `trials`. Pure.
std::vector<Finding> judge_permissions(const std::vector<Trial>& trials, const std::vector<Reply>& replies);

}  // namespace klock::redis
