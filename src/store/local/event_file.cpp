// SPDX-License-Identifier: MIT
#include "store/local/event_file.hpp"

#include "lease/event_json.hpp"
#include "store/local/lock_directory.hpp"
#include "store/local/shared_file.hpp"
#include "store/local/state_directory.hpp"
#include "util/line_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>

namespace klock {
namespace {

constexpr off_t k_largest = off_t{2} << 20;
constexpr int k_rounds = 10;

Fd open_to_read(const std::string& path) {
  return Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

// Of nothing: 0.
ino_t inode_of(const Fd& file) {
  struct stat facts {};
  return file && fstat(file.get(), &facts) == 0 ? facts.st_ino : 0;
}

off_t size_of(const Fd& file) {
  struct stat facts {};
  return file && fstat(file.get(), &facts) == 0 ? facts.st_size : 0;
}

// Whole lines from `offset` on, which it moves behind them.
Result<std::string> read_lines(const Fd& file, off_t& offset, const std::string& path) {
  std::string text;
  if (!file) return text;
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t got =
        pread(file.get(), block.data(), block.size(), offset + static_cast<off_t>(text.size()));
    if (got < 0) return path_failure("cannot read the log", path, errno);
    if (got == 0) break;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  text.resize(text.rfind('\n') + 1);
  offset += static_cast<off_t>(text.size());
  return text;
}

void add_events(std::string_view lines, std::int64_t since_wall_ms, std::vector<Event>& events) {
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    if (auto event = parse_event(lines.substr(0, end)); event && event->wall_ms() >= since_wall_ms)
      events.push_back(*std::move(event));
    lines.remove_prefix(end + 1);
  }
}

// The file and the place in it from which to go on.
struct Position {
  ino_t file = 0;
  off_t offset = 0;
};

Position parse_position(std::string_view text) {
  Position position;
  const auto colon = std::min(text.find(':'), text.size());
  std::from_chars(text.data(), text.data() + colon, position.file);
  if (colon < text.size())
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), position.offset);
  return position;
}

}  // namespace

EventFile::EventFile(const std::string& chosen, mode_t mode)
    : path_(chosen.empty() ? state_directory() : chosen), mode_(mode), make_directory_(chosen.empty()) {
  if (!path_.empty()) path_ += "/events.log";
}

Fd EventFile::open_current() const {
  Fd file = open_shared(path_, O_WRONLY | O_APPEND, mode_);
  if (file || errno != ENOENT || !make_directory_) return file;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  return open_shared(path_, O_WRONLY | O_APPEND, mode_);
}

// Whoever finds the file full and is alone with it renames it. A line that another has still to write goes to
// the renamed file: read() looks there too.
void EventFile::make_room(const Fd& file) const {
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (inode_of(open_to_read(path_)) != inode_of(file)) return;
  // In a sticky directory another user's file can't be renamed; what it holds is then gone.
  if (rename(path_.c_str(), (path_ + ".1").c_str()) == 0) return;
  [[maybe_unused]] const int emptied = ftruncate(file.get(), 0);
}

Status EventFile::append(const Event& event) const {
  if (path_.empty())
    return failure(ErrorKind::system, "there is no place for the log: HOME is not set",
                   "set HOME or XDG_STATE_HOME, or choose a directory with --url local:/DIR");
  Fd file = open_current();
  struct stat facts {};
  if (file && fstat(file.get(), &facts) == 0 && facts.st_size >= k_largest) {
    make_room(file);
    file = open_current();
  }
  if (!file) return path_failure("cannot write the log", path_, errno);
  if (!has_room(file)) return failure(ErrorKind::system, path_ + " would take the space that locks need");
  if (const int error = append_line(file, event_json(event)); error != 0)
    return path_failure("cannot write the log", path_, error);
  return {};
}

Result<EventPage> EventFile::read(const EventQuery& query) const {
  EventPage page;
  if (path_.empty()) return page;
  Fd current;
  Fd last;
  // The current one first: one that is renamed meanwhile is then found as the last one, and we look again.
  for (int round = 0; round < k_rounds; ++round) {
    current = open_to_read(path_);
    if (!current && errno != ENOENT) return path_failure("cannot read the log", path_, errno);
    last = open_to_read(path_ + ".1");
    if (!last || inode_of(last) != inode_of(current)) break;
  }
  const Position from = parse_position(query.position);
  const Fd& newest = current ? current : last;
  Position to{inode_of(newest), 0};
  const bool goes_on = from.file != 0 && from.file == to.file;
  // One that was cut meanwhile begins anew.
  if (goes_on && from.offset <= size_of(newest)) to.offset = from.offset;
  if (!goes_on && current) {
    off_t start = from.file != 0 && from.file == inode_of(last) ? from.offset : 0;
    KLOCK_TRY(lines, read_lines(last, start, path_ + ".1"));
    add_events(lines, query.since_wall_ms, page.events);
  }
  KLOCK_TRY(lines, read_lines(newest, to.offset, path_));
  add_events(lines, query.since_wall_ms, page.events);
  // Who lets go tells it directly afterwards: the next one may have told first.
  std::stable_sort(page.events.begin(), page.events.end(),
                   [](const Event& a, const Event& b) { return a.wall_us < b.wall_us; });
  page.position = std::to_string(to.file) + ":" + std::to_string(to.offset);
  return page;
}

}  // namespace klock
