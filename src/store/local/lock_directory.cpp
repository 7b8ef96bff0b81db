// SPDX-License-Identifier: MIT
#include "store/local/lock_directory.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace klock {
namespace {

// Not the login session's own directory: cron jobs do not see it, which would let a command run twice, and it
// goes with all locks when the user logs out.
std::string default_directory() {
  const uid_t uid = geteuid();
  if (uid == 0) return "/run/lock/klock";
  const std::string id = std::to_string(uid);
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && runtime != "/run/user/" + id)
    return std::string(runtime) + "/klock";
  return "/run/lock/klock-" + id;
}

bool is_network_file_system(std::uint32_t type) {
  constexpr std::uint32_t k_cifs = 0xFF534D42;
  constexpr std::uint32_t k_smb2 = 0xFE534D42;
  constexpr std::uint32_t k_kafs = 0x6B414653;
  constexpr std::uint32_t k_ceph = 0x00C36400;
  constexpr std::uint32_t k_lustre = 0x0BD00BD0;
  constexpr std::array<std::uint32_t, 10> k_types{NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, k_cifs, k_smb2,
                                                  V9FS_MAGIC,      AFS_SUPER_MAGIC, k_kafs, k_ceph,
                                                  k_lustre,        CODA_SUPER_MAGIC};
  return std::find(k_types.begin(), k_types.end(), type) != k_types.end();
}

constexpr std::string_view k_suffix = ".lock";
constexpr std::size_t k_name_max = 255;
constexpr char k_hex[] = "0123456789ABCDEF";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::strchr("_-+@=:.", c) != nullptr;
}

std::string encode(std::string_view key) {
  std::string out;
  out.reserve(key.size() + 16);
  for (const char c : key) {
    if (c != '\0' && is_plain(c) && !(c == '.' && out.empty())) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += k_hex[byte >> 4];
      out += k_hex[byte & 15];
    }
  }
  return out;
}

// Two 64-bit FNV-1a sums with different starts: not against an adversary, who could write to the directory
// anyway.
std::string digest(std::string_view key) {
  std::string out;
  for (std::uint64_t sum : {std::uint64_t{0xcbf29ce484222325}, std::uint64_t{0x9ae16a3b2f90404f}}) {
    for (const char c : key) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    for (int shift = 60; shift >= 0; shift -= 4) out += k_hex[(sum >> shift) & 15];
  }
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

tl::unexpected<Error> path_failure(const char* doing, const std::string& path, int code) {
  const bool refused = code == EACCES || code == EPERM || code == EROFS || code == ELOOP;
  return failure(refused ? ErrorKind::refused : ErrorKind::system,
                 std::string(doing) + " " + path + ": " + std::strerror(code),
                 refused ? k_choose_another : "");
}

Status check_file_system(const std::string& path, std::uint32_t type) {
  if (is_network_file_system(type))
    return failure(ErrorKind::refused, path + " is on a network file system, whose locks cannot be trusted",
                   k_choose_another);
  if (type == PROC_SUPER_MAGIC || type == SYSFS_MAGIC || type == CGROUP2_SUPER_MAGIC)
    return failure(ErrorKind::refused,
                   path + " is in a file system of the kernel's, where nobody makes files", k_choose_another);
  return {};
}

LockDirectory::LockDirectory(const std::string& chosen)
    : path_(chosen.empty() ? default_directory() : chosen), ours_alone_(chosen.empty()) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

std::string LockDirectory::file_path(const std::string& key) const {
  return path_ + "/" + lock_file_name(key);
}

mode_t LockDirectory::file_mode() const {
  struct stat info {};
  if (ours_alone_ || stat(path_.c_str(), &info) != 0) return 0600;
  return (info.st_mode & 0666) | 0600;
}

Status LockDirectory::prepare() const {
  KLOCK_TRY(exists, check());
  if (exists) return {};
  KLOCK_CHECK(create());
  KLOCK_TRY(made, check());
  if (!made) return path_failure("cannot use the lock directory", path_, ENOENT);
  return {};
}

Result<bool> LockDirectory::check() const {
  struct statfs info {};
  if (statfs(path_.c_str(), &info) != 0) {
    if (errno == ENOENT) return false;
    return path_failure("cannot use the lock directory", path_, errno);
  }
  KLOCK_CHECK(check_file_system(path_, static_cast<std::uint32_t>(info.f_type)));
  if (ours_alone_) KLOCK_CHECK(check_owner());
  return true;
}

Status LockDirectory::create() const {
  const mode_t mode = ours_alone_ ? 0700 : 0777;
  if (mkdir(path_.c_str(), mode) == 0 || errno == EEXIST) return {};
  if (errno == ENOENT && ours_alone_) {
    // A minimal container has no /run/lock.
    const std::string parent = path_.substr(0, path_.rfind('/'));
    mkdir(parent.c_str(), 0755);
    if (mkdir(path_.c_str(), mode) == 0 || errno == EEXIST) return {};
  }
  return path_failure("cannot create the lock directory", path_, errno);
}

Status LockDirectory::check_owner() const {
  struct stat info {};
  if (lstat(path_.c_str(), &info) != 0) return path_failure("cannot use the lock directory", path_, errno);
  const char* fault = nullptr;
  if (!S_ISDIR(info.st_mode))
    fault = " is not a directory";
  else if (info.st_uid != geteuid())
    fault = " belongs to another user";
  else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fault = " can be written to by others";
  if (fault != nullptr) return failure(ErrorKind::refused, path_ + fault, k_choose_another);
  return {};
}

std::string lock_file_name(std::string_view key) {
  constexpr std::size_t k_digest = 33;
  std::string name = encode(key);
  if (name.size() + k_suffix.size() > k_name_max) {
    name.resize(k_name_max - k_suffix.size() - k_digest);
    name += '~' + digest(key);
  }
  return name.append(k_suffix);
}

bool is_lock_file_name(std::string_view file_name) {
  return file_name.size() > k_suffix.size() &&
         file_name.substr(file_name.size() - k_suffix.size()) == k_suffix;
}

std::optional<std::string> lock_file_key(std::string_view file_name) {
  if (!is_lock_file_name(file_name)) return std::nullopt;
  const std::string_view text = file_name.substr(0, file_name.size() - k_suffix.size());
  std::string key;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      key += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      key += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  // Whatever this encoding would not have written is somebody else's file.
  if (lock_file_name(key) != file_name) return std::nullopt;
  return key;
}

}  // namespace klock
