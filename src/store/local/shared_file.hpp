// SPDX-License-Identifier: MIT
#pragma once

#include "util/fd.hpp"

#include <sys/types.h>

#include <string>

namespace klock {

// Opens `path` with `flags` (without O_CREAT), and makes it if it is not there: with exactly `mode`, whatever
// the umask, as who may use a lock directory may write its log. Another user's file in a sticky directory
// will do too (fs.protected_regular refuses it to O_CREAT). Does not follow links, nor blocks on a pipe.
// Empty with errno: it can't be opened. Thread-safe.
Fd open_shared(const std::string& path, int flags, mode_t mode);

// Whether the file system has room for more than the locks, which may share it and come first: an eighth of
// it, or 16 MiB.
bool has_room(const Fd& file);

}  // namespace klock
