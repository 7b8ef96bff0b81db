// SPDX-License-Identifier: MIT
#include "journal/audit_file.hpp"

#include "lease/event_json.hpp"
#include "util/line_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace klock {
namespace {

constexpr int k_facility_daemon = 3;
constexpr int k_notice = 5;
constexpr int k_info = 6;
constexpr mode_t k_mode = 0640;

bool is_bad_news(EventKind kind) {
  switch (kind) {
    case EventKind::forced:
    case EventKind::lost:
    case EventKind::expired:
    case EventKind::reclaimed:
    case EventKind::renewed_late:
    case EventKind::degraded:
      return true;
    default:
      return false;
  }
}

int send_to_syslog(const std::string& path, const Event& event, const std::string& line) {
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int priority = k_facility_daemon * 8 + (is_bad_news(event.kind) ? k_notice : k_info);
  const std::string message =
      "<" + std::to_string(priority) + ">klock[" + std::to_string(getpid()) + "]: " + line;
  const auto* to = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  return sendto(socket.get(), message.data(), message.size(), MSG_NOSIGNAL, to, sizeof address) < 0 ? errno
                                                                                                    : 0;
}

int write_line(const std::string& path, const Event& event, const std::string& line) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode)) return send_to_syslog(path, event, line);
  const Fd file = open_for_lines(path, k_mode);
  return file ? append_line(file, line) : errno;
}

}  // namespace

Status write_audit(const std::string& path, const Event& event, const std::string& store) {
  if (const int error = write_line(path, event, event_json(event, store)); error != 0)
    return system_failure("cannot write the audit file " + path, error);
  return {};
}

}  // namespace klock
