// SPDX-License-Identifier: MIT
#include "lease/hold_mark.hpp"

#include "util/procfs.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>

namespace klock {
namespace {

std::string mark_name(std::string_view id) {
  return "klock-hold-" + std::string(id);
}

}  // namespace

Fd mark_hold(std::string_view id) {
  return Fd(memfd_create(mark_name(id).c_str(), MFD_CLOEXEC));
}

bool marks_hold(pid_t pid, std::string_view id) {
  const std::string wanted = "/memfd:" + mark_name(id) + " ";  // then "(deleted)"
  return any_descriptor(pid, [&](const std::string& path) {
    std::array<char, 128> target{};
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    return length > 0 &&
           std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with(wanted);
  });
}

}  // namespace klock
