// SPDX-License-Identifier: MIT
#pragma once

#include "lease/event.hpp"
#include "util/result.hpp"

#include <string>

namespace klock {

// Appends `event` to `path` as one line of JSON (lease/event_json.hpp), in one write: safe with many writers,
// and as the file is opened each time, with a log rotation. A new file is 0640 less the umask. Where a
// datagram socket is, such as /dev/log, it is sent as a message to syslog (facility daemon; RFC 3164 without
// the time, which the daemon adds). `store`: as described to people. Never blocks on a slow reader; does not
// create directories. Errors: system.
Status write_audit(const std::string& path, const Event& event, const std::string& store);

}  // namespace klock
