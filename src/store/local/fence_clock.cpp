// SPDX-License-Identifier: MIT
#include "store/local/fence_clock.hpp"

#include "util/directory.hpp"
#include "util/procfs.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace klock {
namespace {

// Not that of a lock: see lock_file_name().
constexpr std::string_view k_prefix = ".epoch-";

// Before 2000 a clock has never been set: all fences of this boot would be far below those of the last one.
// Beyond 2^53 many who read fences, in JSON as in Lua, could not tell one from the next. What is between is
// believed, however far from the wall clock: that one may be wrong just now. (Who can put wrong links here
// can as well remove the files of locks that are held.)
bool is_plausible(std::int64_t boot_wall_us) {
  constexpr std::int64_t k_year_2000_us = 946'684'800'000'000;
  constexpr std::int64_t k_exact = std::int64_t{1} << 53;
  return boot_wall_us >= k_year_2000_us && boot_wall_us < k_exact;
}

std::int64_t boot_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(BootClock::now().time_since_epoch()).count();
}

// nullopt, with errno 0: something that no klock has made.
std::optional<std::int64_t> read_link(const std::string& path) {
  std::array<char, 32> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = target.data() + length;
  const auto [stop, error] = std::from_chars(target.data(), end, value);
  errno = 0;
  if (error != std::errc{} || stop != end || !is_plausible(value)) return std::nullopt;
  return value;
}

}  // namespace

FenceClock::FenceClock(const std::string& directory, Wall wall)
    : directory_(directory + "/"),
      name_(boot_id().empty() ? std::string() : std::string(k_prefix) + boot_id()),
      wall_(wall) {}

std::uint64_t FenceClock::now_us() const {
  const auto base = boot_wall_us();
  return static_cast<std::uint64_t>(base ? *base + boot_us() : std::max<std::int64_t>(wall_(), 0));
}

std::optional<std::int64_t> FenceClock::boot_wall_us() const {
  if (name_.empty()) return std::nullopt;
  const std::string path = directory_ + name_;
  // A wrong one stays: if it were replaced, two who do so at once could not agree on whose counts.
  if (const auto made = read_link(path); made || errno != ENOENT) return made;
  // In this order: frozen in between we would be behind the wall clock, which nobody minds, rather than ahead
  // of what it will tell after the next boot.
  const std::int64_t wall = wall_();
  const std::int64_t base = wall - boot_us();
  if (!is_plausible(base)) return std::nullopt;
  if (symlink(std::to_string(base).c_str(), path.c_str()) != 0) return read_link(path);
  forget_other_boots();
  return base;
}

void FenceClock::forget_other_boots() const {
  const Directory entries = open_directory(directory_);
  if (!entries) return;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string path = directory_ + entry->d_name;
    if (std::string_view(entry->d_name).starts_with(k_prefix) && entry->d_name != name_ && read_link(path))
      unlink(path.c_str());
  }
}

}  // namespace klock
