// SPDX-License-Identifier: MIT
#include "store/local/statistics_file.hpp"

#include "store/local/lock_directory.hpp"
#include "store/local/shared_file.hpp"
#include "store/local/state_directory.hpp"
#include "util/fd.hpp"
#include "util/file_limit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>

namespace klock {
namespace {

constexpr std::uint64_t k_version = 0x6b6c6f636b000002;  // "klock", 2
constexpr std::size_t k_slot_size = 8192;
constexpr std::size_t k_longest_name = 200;
constexpr std::size_t k_probes = 16;  // a full file must not slow every run
constexpr int k_tries = 5;
constexpr timespec k_pause{0, 1'000'000};

struct StoredHistogram {
  std::array<std::uint64_t, Histogram::k_buckets> counts;
  std::uint64_t sum_ms;
  std::uint64_t max_ms;
};

// Plain numbers in this machine's order: the file is read on this host alone.
struct Slot {
  std::uint64_t version;
  std::int64_t since_wall_ms;
  std::array<std::uint64_t, GroupStatistics::k_kinds> counts;
  std::uint64_t refused;
  std::uint64_t ttl_ms;
  std::uint64_t unrenewed_ttl_ms;
  std::array<StoredHistogram, 4> times;
  std::array<char, k_longest_name + 8> name;  // ended by a NUL
};
static_assert(sizeof(Slot) <= k_slot_size);

std::array<Histogram*, 4> times_of(GroupStatistics& group) {
  return {&group.waited, &group.held, &group.unrenewed, &group.late};
}

GroupStatistics group_of(const Slot& slot) {
  GroupStatistics group;
  group.group.assign(slot.name.data(), strnlen(slot.name.data(), slot.name.size()));
  group.since_wall_ms = slot.since_wall_ms;
  group.counts = slot.counts;
  group.refused = slot.refused;
  group.ttl_ms = slot.ttl_ms;
  group.unrenewed_ttl_ms = slot.unrenewed_ttl_ms;
  for (std::size_t i = 0; i < slot.times.size(); ++i)
    *times_of(group).at(i) = {slot.times.at(i).counts, slot.times.at(i).sum_ms, slot.times.at(i).max_ms};
  return group;
}

Slot slot_of(GroupStatistics& group) {
  Slot slot{};
  slot.version = k_version;
  slot.since_wall_ms = group.since_wall_ms;
  slot.counts = group.counts;
  slot.refused = group.refused;
  slot.ttl_ms = group.ttl_ms;
  slot.unrenewed_ttl_ms = group.unrenewed_ttl_ms;
  for (std::size_t i = 0; i < slot.times.size(); ++i) {
    const Histogram& times = *times_of(group).at(i);
    slot.times.at(i) = {times.counts, times.sum_ms, times.max_ms};
  }
  std::memcpy(slot.name.data(), group.group.data(), std::min(group.group.size(), k_longest_name));
  return slot;
}

off_t offset_of(std::size_t number) {
  return static_cast<off_t>(number * k_slot_size);
}

// nullopt: the file ends before it, or it was never used.
std::optional<Slot> read_slot(const Fd& file, std::size_t number) {
  Slot slot{};
  const ssize_t got = pread(file.get(), &slot, sizeof slot, offset_of(number));
  if (got != static_cast<ssize_t>(sizeof slot) || slot.version != k_version) return std::nullopt;
  return slot;
}

bool has_name(const Slot& slot, const std::string& group) {
  return std::strncmp(slot.name.data(), group.c_str(), slot.name.size()) == 0;
}

// The slot of this name, or the free one that it may take; 0, that of the others, if there is none.
std::size_t find_slot(const Fd& file, const std::string& group) {
  const std::size_t start = std::hash<std::string>()(group) % k_most_groups;
  for (std::size_t i = 0; i < k_probes; ++i) {
    const std::size_t number = 1 + (start + i) % k_most_groups;
    const auto slot = read_slot(file, number);
    if (!slot || has_name(*slot, group)) return number;
  }
  return 0;
}

// The kernel's lock on one slot: gone with the descriptor.
bool lock_slot(const Fd& file, std::size_t number) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = offset_of(number);
  range.l_len = k_slot_size;
  for (int i = 0; i < k_tries; ++i) {
    if (fcntl(file.get(), F_OFD_SETLK, &range) == 0) return true;
    nanosleep(&k_pause, nullptr);
  }
  return false;
}

}  // namespace

StatisticsFile::StatisticsFile(const std::string& chosen, mode_t mode)
    : path_(chosen.empty() ? state_directory() : chosen), mode_(mode) {
  if (!path_.empty()) path_ += "/statistics";
}

Status StatisticsFile::add(const std::string& name, const Event& event) const {
  const std::string group = name.substr(0, k_longest_name);
  const Fd file = open_shared(path_, O_RDWR, mode_);
  if (!file) return path_failure("cannot write the statistics", path_, errno);
  const NoFileLimitSignal quiet;
  // A slot that was free when it was found may be another group's once it is locked.
  for (int round = 0; round < k_tries; ++round) {
    const std::size_t number = find_slot(file, group);
    if (!lock_slot(file, number)) return failure(ErrorKind::system, path_ + " is kept by another process");
    const auto slot = read_slot(file, number);
    if (slot && number != 0 && !has_name(*slot, group)) continue;
    if (!slot && !has_room(file))
      return failure(ErrorKind::system, path_ + " would take the space that locks need");
    GroupStatistics counted = slot ? group_of(*slot) : GroupStatistics{};
    counted.group = number == 0 ? std::string(k_other_group) : group;
    counted.add(event);
    const Slot changed = slot_of(counted);
    const ssize_t put = pwrite(file.get(), &changed, sizeof changed, offset_of(number));
    if (put != static_cast<ssize_t>(sizeof changed))
      return path_failure("cannot write the statistics", path_, put < 0 ? errno : ENOSPC);
    return {};
  }
  return failure(ErrorKind::system, path_ + " is changed by others all the time");
}

Result<std::vector<GroupStatistics>> StatisticsFile::read() const {
  std::vector<GroupStatistics> groups;
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT) return groups;
  if (!file) return path_failure("cannot read the statistics", path_, errno);
  for (std::size_t number = 0; number <= k_most_groups; ++number)
    if (const auto slot = read_slot(file, number)) groups.push_back(group_of(*slot));
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.group < b.group; });
  return groups;
}

}  // namespace klock
