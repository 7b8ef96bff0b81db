// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace klock {

// What the guard of a command calls itself (PR_SET_NAME), for whoever looks for it.
inline constexpr const char* k_guard_name = "lock-guard";

// At most `limit` bytes of a file, in particular of /proc; "" if it can't be read.
std::string read_small_file(const std::string& path, std::size_t limit);

// At most `limit` bytes from `fd` up to its end; "" for fd -1.
std::string read_all(int fd, std::size_t limit);

// This boot of this kernel; empty if /proc does not tell. It is asked once.
const std::string& boot_id();

// 0: there is no such process, or it cannot be known.
pid_t parent_of(pid_t pid);

// The processes that /proc shows.
std::vector<pid_t> all_processes();

// Whether `matches` says so of any descriptor of the process, by the path of its link in /proc. False where
// we may not look.
bool any_descriptor(pid_t pid, const std::function<bool(const std::string& path)>& matches);

}  // namespace klock
