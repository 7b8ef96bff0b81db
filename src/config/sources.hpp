// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"

namespace klock {

// Every value that was given, each from its strongest origin: files, environment, `flags`.
// Errors: usage (--config), config. Blocking: reads files only.
Result<RawValues> collect_values(const RawValues& flags);

// The error of a --url that shows one.
tl::unexpected<Error> password_in_flag();

// Completes settings.url from KLOCK_PASSWORD_FILE or else REDISCLI_AUTH when a Redis URL has no password.
// Errors: usage for a password in a --url flag; config for an unusable password file.
Status take_password(Settings& settings);

}  // namespace klock
