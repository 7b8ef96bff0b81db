// SPDX-License-Identifier: MIT
#include "store/local/directory_doctor.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace klock {
namespace {

constexpr std::uint64_t k_little_space = 1 << 20;  // bytes
constexpr std::uint64_t k_few_files = 100;

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode & 07777U);
  return text;
}

std::string file_system_name(std::uint32_t type) {
  constexpr std::uint32_t k_xfs = 0x58465342;
  constexpr std::uint32_t k_zfs = 0x2FC12FC1;
  constexpr std::uint32_t k_fuse = 0x65735546;
  constexpr std::array<std::pair<std::uint32_t, const char*>, 8> k_names{
      {{TMPFS_MAGIC, "tmpfs"},
       {RAMFS_MAGIC, "ramfs"},
       {EXT4_SUPER_MAGIC, "ext2, ext3 or ext4"},
       {k_xfs, "xfs"},
       {BTRFS_SUPER_MAGIC, "btrfs"},
       {k_zfs, "zfs"},
       {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
       {k_fuse, "fuse"}}};
  for (const auto& [magic, name] : k_names)
    if (magic == type) return name;
  char text[32];
  std::snprintf(text, sizeof text, "type 0x%x", type);
  return text;
}

Finding judge_file_system(const struct statfs& info) {
  const std::string name = file_system_name(static_cast<std::uint32_t>(info.f_type));
  if ((static_cast<unsigned long>(info.f_flags) & ST_RDONLY) != 0)
    return {Severity::danger, "file system", name + ", mounted read-only: no lock can be taken",
            k_choose_another};
  if (name == "overlayfs")
    return {Severity::ok, "file system", name + ": the locks are those of this container alone"};
  return {Severity::ok, "file system", name};
}

// As with the rights that we really have, not those of who called a set-user-ID program.
bool may_write(const std::string& path) {
  return faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

// It is made when the first lock is taken, in a directory that is there already.
Finding judge_missing(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0)
    return {Severity::danger, "directory", path + " is a link that leads nowhere", k_choose_another};
  const std::string above = path.substr(0, path.rfind('/'));
  const std::string parent = above.empty() ? "/" : above;
  struct statfs system {};
  if (statfs(parent.c_str(), &system) == 0)
    if (const auto fit = check_file_system(parent, static_cast<std::uint32_t>(system.f_type)); !fit)
      return {Severity::danger, "directory", fit.error().what, fit.error().hint};
  if (may_write(parent)) return {Severity::ok, "directory", path + " is made with the first lock"};
  return {Severity::danger, "directory",
          path + " does not exist, and we cannot make it in " + parent + ": " + std::strerror(errno),
          "make it, or " + std::string(k_choose_another)};
}

}  // namespace

Finding judge_rights(const struct stat& directory, gid_t group) {
  const std::string what = "owner " + std::to_string(directory.st_uid) + ", group " +
                           std::to_string(directory.st_gid) + ", mode " + octal(directory.st_mode);
  const bool for_group = (directory.st_mode & S_IWGRP) != 0;
  const bool for_others = (directory.st_mode & S_IWOTH) != 0;
  if (for_others && (directory.st_mode & S_ISVTX) == 0)
    return {Severity::warning, "rights", what + ": everybody can delete the files of locks that are held",
            "chmod o-w, and a group for those who share the locks (chmod 2775)"};
  if (for_group && !for_others && (directory.st_mode & S_ISGID) == 0 && directory.st_gid != group)
    return {Severity::warning, "rights",
            what + ": files that we make there are not of its group, whose members cannot take our locks",
            "chmod g+s"};
  return {Severity::ok, "rights", what};
}

Finding judge_space(const struct statvfs& system, bool root) {
  const std::uint64_t bytes = (root ? system.f_bfree : system.f_bavail) * std::uint64_t{system.f_frsize};
  const std::uint64_t files = root ? system.f_ffree : system.f_favail;
  const bool counts_files = system.f_files > 0;
  std::string what = std::to_string(bytes >> 20) + " MiB";
  if (counts_files) what += " and " + std::to_string(files) + " files";
  what += " free";
  const char* remedy = "make room there";
  if (bytes == 0 || (counts_files && files == 0))
    return {Severity::danger, "space", what + ": no lock can be taken", remedy};
  if (bytes < k_little_space || (counts_files && files < k_few_files))
    return {Severity::warning, "space", what, remedy};
  return {Severity::ok, "space", what};
}

std::vector<Finding> examine_directory(const LockDirectory& directory) {
  const std::string& path = directory.path();
  const auto exists = directory.check();
  if (!exists) return {{Severity::danger, "directory", exists.error().what, exists.error().hint}};
  if (!*exists) return {judge_missing(path)};

  struct stat info {};
  struct statfs system {};
  struct statvfs room {};
  if (stat(path.c_str(), &info) != 0 || statfs(path.c_str(), &system) != 0 ||
      statvfs(path.c_str(), &room) != 0)
    return {{Severity::danger, "directory", path + ": " + std::strerror(errno), k_choose_another}};
  if (!S_ISDIR(info.st_mode))
    return {{Severity::danger, "directory", path + " is not a directory", k_choose_another}};
  std::vector<Finding> findings;
  if (may_write(path))
    findings.push_back({Severity::ok, "directory", path});
  else
    findings.push_back({Severity::danger, "directory",
                        "we may not write to " + path + ": " + std::strerror(errno),
                        "ask its owner, or " + std::string(k_choose_another)});
  findings.push_back(judge_rights(info, getegid()));
  findings.push_back(judge_file_system(system));
  findings.push_back(judge_space(room, geteuid() == 0));
  return findings;
}

}  // namespace klock
