// SPDX-License-Identifier: MIT
#include "store/local/fence_clock.hpp"

#include "store/local/records.hpp"
#include "store/local/shared_file.hpp"
#include "store/local/state_directory.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/file_limit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace klock {
namespace {

constexpr std::int64_t k_year_10000_us = 253'402'300'800'000'000;
// So much may be lost when the wall clock is put back after it has gone faster.
constexpr std::int64_t k_drift_us = 10'000;

std::int64_t boot_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(BootClock::now().time_since_epoch()).count();
}

// "BOOT_ID DIFFERENCE\n". nullopt: none, or of another boot.
std::optional<std::int64_t> read_difference(const Fd& file) {
  std::array<char, 128> bytes{};
  const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::string& boot = boot_id();
  if (boot.empty() || !text.starts_with(boot + " ") || !text.ends_with('\n')) return std::nullopt;
  std::int64_t difference = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data() + boot.size() + 1, end, difference);
  if (error != std::errc{} || stop != end || difference < 0 || difference > k_year_10000_us)
    return std::nullopt;
  return difference;
}

// Of two who write at once the later counts for both, and they differ by nearly nothing.
std::optional<std::int64_t> write_difference(const std::string& path, mode_t mode) {
  const NoFileLimitSignal quiet;
  const std::string text = boot_id() + " " + std::to_string(wall_us() - boot_us()) + "\n";
  const Fd file(open_shared(path, O_RDWR, mode));
  if (!file || ftruncate(file.get(), 0) != 0 || pwrite(file.get(), text.data(), text.size(), 0) < 0)
    return std::nullopt;
  return read_difference(file);
}

}  // namespace

FenceClock::FenceClock(const std::string& chosen, mode_t mode)
    : path_(chosen.empty() ? state_directory() : chosen), mode_(mode) {
  if (!path_.empty()) path_ += "/.clock";
}

std::uint64_t FenceClock::now_us() const {
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
  auto difference = file ? read_difference(file) : std::nullopt;
  if (!difference || boot_us() + *difference + k_drift_us < wall_us())
    difference = write_difference(path_, mode_);
  return static_cast<std::uint64_t>(std::max(wall_us(), difference ? boot_us() + *difference : 0));
}

}  // namespace klock
