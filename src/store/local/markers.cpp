// SPDX-License-Identifier: MIT
#include "store/local/markers.hpp"

#include "lease/stored_json.hpp"
#include "store/local/lock_directory.hpp"
#include "store/local/state_directory.hpp"
#include "util/clock.hpp"
#include "util/directory.hpp"
#include "util/fd.hpp"
#include "util/json_text.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

namespace klock {
namespace {

using nlohmann::json;

constexpr std::string_view k_suffix = ".once";
constexpr std::size_t k_largest = 8192;

std::optional<std::string> read_whole(const std::string& path, int& error) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string text(k_largest, '\0');
  const ssize_t got = fd ? read(fd.get(), text.data(), text.size()) : -1;
  error = errno;
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return text;
}

struct Entry {
  std::int64_t until_ms = 0;
  Marker marker;
};

std::optional<Entry> parse(const std::string& text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  return Entry{number_of(object, "until_ms"),
               {text_of(object, "key"), person_of(object), number_of(object, "since_ms"), std::nullopt}};
}

std::string entry_text(const std::string& lock_key, const Once& once, const Person& who) {
  const std::int64_t now = wall_ms();
  JsonText text;
  text.add("lock", lock_key, 1200);
  text.add("key", once.key, 1200);
  text.add("since_ms", now);
  text.add("until_ms", now + std::chrono::ceil<Milliseconds>(once.keep).count());
  text.add("user", who.user, 128);
  text.add("host", who.host, 255);
  text.add("pid", std::int64_t{who.pid});
  text.add("program", who.program, 255);
  text.add("message", who.message, 2000);
  return text.take() + "\n";
}

// A file under its final name is whole, whatever happens meanwhile.
int write_file(const std::string& directory, const std::string& path, const std::string& text, mode_t mode) {
  const std::string temporary = directory + "/." + std::to_string(getpid()) + "-" +
                                std::to_string(BootClock::now().time_since_epoch().count());
  const auto fail = [&] {
    const int error = errno;
    unlink(temporary.c_str());
    return error;
  };
  const Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return errno;
  if (fchmod(fd.get(), mode) != 0) return fail();  // whatever the umask
  const ssize_t put = write(fd.get(), text.data(), text.size());
  if (put >= 0 && put != static_cast<ssize_t>(text.size())) errno = ENOSPC;
  if (put != static_cast<ssize_t>(text.size()) || fsync(fd.get()) != 0) return fail();
  if (rename(temporary.c_str(), path.c_str()) != 0) return fail();
  const Fd above(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above) fsync(above.get());
  return 0;
}

}  // namespace

Markers::Markers(const std::string& chosen)
    : directory_(chosen.empty() ? state_directory() : chosen), in_lock_directory_(!chosen.empty()) {
  if (!in_lock_directory_ && !directory_.empty()) directory_ += "/once";
}

// A lock's name and a key, told apart by a byte that no name has.
Result<std::string> Markers::path(const std::string& lock_key, const std::string& once_key) const {
  if (directory_.empty())
    return failure(ErrorKind::system, "there is no place for the markers of --once: HOME is not set",
                   "set HOME or XDG_STATE_HOME, or choose a directory with --url local:/DIR");
  std::string name = lock_file_name(lock_key + '\n' + once_key);
  name.resize(name.rfind('.'));
  return directory_ + "/" + name.append(k_suffix);
}

Result<std::optional<Marker>> Markers::find(const std::string& lock_key, const std::string& once_key) const {
  KLOCK_TRY(file, path(lock_key, once_key));
  int error = 0;
  const auto text = read_whole(file, error);
  if (!text && error == ENOENT) return std::nullopt;
  if (!text) return path_failure("cannot read the marker", file, error);
  auto entry = parse(*text);
  // Whatever is wrong with it: somebody was here.
  if (!entry) return Marker{once_key, {}, 0, std::nullopt};
  const std::int64_t left = entry->until_ms - wall_ms();
  if (left <= 0) return std::nullopt;
  entry->marker.expires_in = Milliseconds(left);
  return std::move(entry->marker);
}

Status Markers::put(const std::string& lock_key, const Once& once, const Person& who) const {
  KLOCK_TRY(file, path(lock_key, once.key));
  KLOCK_CHECK(prepare());
  sweep();
  // Who shares the locks has to see what is done. Else nobody has to, and it tells as much as the log.
  const mode_t mode = in_lock_directory_ ? 0644 : 0600;
  if (const int error = write_file(directory_, file, entry_text(lock_key, once, who), mode); error != 0)
    return path_failure("cannot write the marker", file, error);
  return {};
}

// The names of the files tell locks and keys: they are for this user alone too.
Status Markers::prepare() const {
  if (in_lock_directory_) return {};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(directory_).parent_path(), error);
  if (!error && mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    error.assign(errno, std::generic_category());
  if (error) return path_failure("cannot create the directory of markers", directory_, error.value());
  return {};
}

Result<bool> Markers::clear(const std::string& lock_key, const std::string& once_key) const {
  KLOCK_TRY(found, find(lock_key, once_key));
  KLOCK_TRY(file, path(lock_key, once_key));
  if (unlink(file.c_str()) == 0) return found.has_value();
  if (errno == ENOENT) return false;
  return path_failure("cannot remove the marker", file, errno);
}

void Markers::sweep() const {
  const Directory entries = open_directory(directory_);
  if (!entries) return;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(k_suffix)) continue;
    const std::string file = directory_ + "/" + std::string(name);
    int error = 0;
    const auto text = read_whole(file, error);
    const auto marker = text ? parse(*text) : std::nullopt;
    if (marker && marker->until_ms != 0 && marker->until_ms <= wall_ms()) unlink(file.c_str());
  }
}

}  // namespace klock
