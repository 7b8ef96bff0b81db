// SPDX-License-Identifier: MIT
#include "output/message.hpp"

#include "output/escape.hpp"
#include "output/human_time.hpp"
#include "util/file_limit.hpp"
#include "util/signal_set.hpp"
#include "util/wall_time.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace klock {
namespace {

// Where SIGPIPE is blocked, as it is in `run`, one of our own making would stay pending and later look like a
// signal that somebody sent: it would end the waiting for a lock.
void drop_own_sigpipe() {
  const sigset_t pipe = only(SIGPIPE);
  const timespec at_once{};
  sigtimedwait(&pipe, nullptr, &at_once);
}

void write_line(const std::string& text) {
  const std::string line = "klock: " + terminal_safe(text) + "\n";
  const NoFileLimitSignal quiet;
  // Nothing sensible can be done about a failure, and a rest written later could land in another line.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EPIPE) drop_own_sigpipe();
}

void append_part(std::string& text, std::string_view before, const std::string& part,
                 std::string_view after) {
  if (part.empty()) return;
  if (!text.empty()) text += before;
  text.append(part).append(after);
}

}  // namespace

void Messenger::usage(const std::string& text) const {
  write_line(text);
}

void Messenger::tell(const std::string& text) const {
  if (verbosity_ >= 0) write_line(text);
}

void Messenger::explain(const std::string& text) const {
  if (verbosity_ > 0) write_line(text);
}

std::string about(const std::string& name, const std::string& what, const std::string& store,
                  const std::string& hint) {
  std::string text = name;
  append_part(text, ": ", what, "");
  append_part(text, " (", store, text.empty() ? "" : ")");
  append_part(text, "; ", hint, "");
  return terminal_safe(text);
}

std::string about(const std::string& name, const Error& error, const std::string& store) {
  return about(name, error.what, store, error.hint);
}

std::string describe_person(const Person& who) {
  std::string text = escape_text(who.user, 64);
  append_part(text, "@", escape_text(who.host, 255), "");
  if (who.user.empty() && !who.host.empty()) text = "someone@" + text;
  if (who.pid > 0) append_part(text, " ", "pid " + std::to_string(who.pid), "");
  if (!who.program.empty()) append_part(text, " ", "(" + escape_text(who.program, 100) + ")", "");
  return text.empty() ? "someone" : text;
}

std::string unrenewed_time_left(const Holder& holder) {
  if (holder.foreign || holder.who.pid > 0 || !holder.expires_in) return {};
  return human_duration(*holder.expires_in) + " left";
}

std::string describe_order(const StopRequest& order) {
  const std::string by = escape_text(order.by, 320);
  if (order.released) return "released by its token" + (by.empty() ? "" : ", by " + by);
  return "by " + by + (order.reason.empty() ? "" : ", reason: " + escape_text(order.reason));
}

std::string describe_client(const Holder& holder) {
  return holder.client.empty() ? "another client" : "another client, probably " + holder.client;
}

std::string describe_holder(const Holder& holder) {
  if (holder.foreign) {
    std::string text = describe_client(holder);
    if (!holder.what.empty()) text += " (" + escape_text(holder.what, 200) + ")";
    return text;
  }
  std::string text = describe_person(holder.who);
  const std::string since = holder.since_wall_ms > 0 ? local_time(holder.since_wall_ms) : std::string();
  if (!since.empty()) text += " since " + since;
  if (holder.held)
    text += (since.empty() ? " for " : " (") + human_duration(*holder.held) + (since.empty() ? "" : ")");
  append_part(text, ", ", unrenewed_time_left(holder), "");
  append_part(text, ": ", escape_text(holder.who.message, 500), "");
  return text;
}

std::string describe_marker(const Marker& marker) {
  std::string text = "completed by " + describe_person(marker.who);
  const std::string since = marker.since_wall_ms > 0 ? local_time(marker.since_wall_ms) : std::string();
  append_part(text, " at ", since, "");
  if (marker.expires_in) text += ", kept for " + human_duration(*marker.expires_in) + " more";
  append_part(text, ": ", escape_text(marker.who.message, 500), "");
  return text;
}

}  // namespace klock
