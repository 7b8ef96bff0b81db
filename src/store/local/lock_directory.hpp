// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace klock {

// The directory of the lock files. It touches the file system only where said. Immutable: safe from several
// threads.
class LockDirectory {
 public:
  // `chosen` empty: the default directory of this user (see local_store.hpp); it must belong to us alone.
  explicit LockDirectory(const std::string& chosen);

  const std::string& path() const { return path_; }
  std::string file_path(const std::string& key) const;
  // Of a new lock file, whatever the umask: who may use the directory may use the lock.
  mode_t file_mode() const;

  // Before something is locked: makes the directory if need be, and refuses one that cannot be trusted
  // (a network file system or one of the kernel's own; a default directory that others could write to).
  // Errors: refused, system.
  Status prepare() const;

  // Before something is looked at: false if there is no such directory. Creates nothing. Errors as above.
  Result<bool> check() const;

 private:
  Status create() const;
  Status check_owner() const;

  std::string path_;
  bool ours_alone_ = false;
};

// What to do about a directory that won't do.
inline constexpr char k_choose_another[] = "choose a directory on a local disk with --url local:/DIR";

// Whether locks can lie at `path` on a file system of this type (statfs(2)). Errors: refused.
Status check_file_system(const std::string& path, std::uint32_t type);

// The file name of a lock: injective, one path component, at most 255 bytes. What is not a letter, a digit or
// one of
// "_-+@=:." becomes %XX; a name that would be too long ends in "~" and a digest of the whole key instead.
std::string lock_file_name(std::string_view key);

// The key of a file name; nullopt: not a lock file, or shortened (then only the records inside know the key).
std::optional<std::string> lock_file_key(std::string_view file_name);

bool is_lock_file_name(std::string_view file_name);

// "<doing> <path>: <strerror(code)>"; refused when permissions or a read-only file system forbid it, else
// system.
tl::unexpected<Error> path_failure(const char* doing, const std::string& path, int code);

}  // namespace klock
