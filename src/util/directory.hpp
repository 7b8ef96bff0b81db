// SPDX-License-Identifier: MIT
#pragma once

#include <dirent.h>

#include <memory>
#include <string>

namespace klock {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
// Owns a directory that is being read.
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// nullptr: it can't be read; errno tells why.
inline Directory open_directory(const std::string& path) {
  return Directory(opendir(path.c_str()));
}

}  // namespace klock
