// SPDX-License-Identifier: MIT
#include "journal/outcome_file.hpp"

#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/file_limit.hpp"
#include "util/interrupt.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

namespace klock {
namespace {

std::string report_json(const RunReport& report) {
  nlohmann::ordered_json json{{"name", report.name},       {"acquired", report.acquired},
                              {"outcome", report.outcome}, {"exit_status", report.exit_status},
                              {"command", nullptr},        {"waited_ms", report.waited_ms},
                              {"held_ms", report.held_ms}, {"fence", nullptr},
                              {"degraded", nullptr},       {"reason", nullptr}};
  if (report.command_exit) json["command"] = {{"exit", *report.command_exit}};
  if (!report.command_signal.empty()) json["command"] = {{"signal", report.command_signal}};
  if (report.fence != 0) json["fence"] = report.fence;
  if (!report.degraded.empty()) json["degraded"] = report.degraded;
  if (!report.reason.empty()) json["reason"] = report.reason;
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

tl::unexpected<Error> cannot_write(const std::string& path, int code) {
  return system_failure("cannot write the outcome file " + path, code);
}

// A pipe whose reader is slow is waited for, but not for long.
Status write_all(int fd, std::string_view text, const std::string& path) {
  const Instant deadline = BootClock::now() + std::chrono::seconds(2);
  const NoFileLimitSignal quiet;
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0)
      text.remove_prefix(static_cast<std::size_t>(count));
    else if (errno == EAGAIN && wait_ready(fd, POLLOUT, deadline, {}) != Ready::descriptor)
      return cannot_write(path, ETIMEDOUT);
    else if (errno != EAGAIN && errno != EINTR)
      return cannot_write(path, errno);
  }
  return {};
}

Status write_in_place(const std::string& path, const std::string& text, int flags) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags));
  if (!file) return cannot_write(path, errno);
  return write_all(file.get(), text, path);
}

// The number in "/dev/stderr" or "/dev/fd/2". Such a name must neither be replaced nor opened: an open file
// would be written from its start, and a socket can't be opened at all.
std::optional<int> standard_descriptor(const std::string& path) {
  if (path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1") return 1;
  if (path == "/dev/stderr" || path == "/dev/fd/2" || path == "/proc/self/fd/2") return 2;
  return std::nullopt;
}

// 0666 less the umask, which can only be read by setting it. The command is gone and no thread makes files
// now.
mode_t new_file_mode() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return 0666 & ~mask;
}

Status replace(const std::string& path, const std::string& text, const struct stat* old) {
  std::string temporary = path + ".XXXXXX";
  const Fd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file && old)
    return write_in_place(path, text, O_TRUNC);  // the directory is closed to us, the file is not
  if (!file) return cannot_write(path, errno);
  Status written = write_all(file.get(), text, path);
  if (written && ::fchmod(file.get(), old ? old->st_mode & 0777 : new_file_mode()) != 0)
    written = cannot_write(path, errno);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) written = cannot_write(path, errno);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

// Where a chain of symbolic links ends, so that the links survive the replacing.
std::string target_of(const std::string& path) {
  char* const resolved = ::realpath(path.c_str(), nullptr);
  if (!resolved) return path;
  std::string target(resolved);
  ::free(resolved);
  return target;
}

}  // namespace

Status write_outcome(const std::string& path, const RunReport& report) {
  const std::string text = report_json(report);
  if (const auto descriptor = standard_descriptor(path)) return write_all(*descriptor, text, path);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return cannot_write(path, errno);
    return replace(path, text, nullptr);
  }
  if (!S_ISREG(status.st_mode)) return write_in_place(path, text, 0);
  if (path.starts_with("/dev/fd/") || path.starts_with("/proc/")) return write_in_place(path, text, O_APPEND);
  return replace(target_of(path), text, &status);
}

}  // namespace klock
