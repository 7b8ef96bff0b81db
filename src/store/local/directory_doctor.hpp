// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "store/local/lock_directory.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <vector>

namespace klock {

// LockStore::examine of the local store: whether the directory is there or can be made, who may do what in
// it, its file system, the room in it. Creates nothing.
std::vector<Finding> examine_directory(const LockDirectory& directory);

// The parts of it that decide by numbers alone. Pure. `group`: that of the files that we make.
Finding judge_rights(const struct stat& directory, gid_t group);
Finding judge_space(const struct statvfs& system, bool root);

}  // namespace klock
