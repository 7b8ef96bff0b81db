// SPDX-License-Identifier: MIT
// Of Session: one server's part in the decision of several.
#include "store/redis/scripts.hpp"
#include "store/redis/session.hpp"

namespace klock::redis {
namespace {

tl::unexpected<Error> error_of(Fault&& fault) {
  return tl::unexpected(std::move(fault.error));
}

}  // namespace

Result<Attempt> Session::vote(Instant deadline, Interrupt interrupt) {
  one_of_several_ = true;
  return take(How::vote, deadline, interrupt);
}

void Session::hold_as(std::uint64_t fence, bool adds) {
  one_of_several_ = tried_ = holding_ = true;
  fence_ = std::to_string(fence);
  adds_ = adds;
}

Result<bool> Session::settle(std::uint64_t fence, Milliseconds waited, Instant deadline,
                             Interrupt interrupt) {
  if (has_joined()) {
    // Here an ancestor's hold stands, which the majority knows nothing of any more.
    KLOCK_CHECK(take_back(deadline, interrupt));
    return false;
  }
  hold_as(fence, false);
  const std::string time = std::to_string(waited.count());
  auto answer = client_.call({scripts::k_settle, keys_.own(), keys_.common(), {token_, fence_, time, ttl_}},
                             deadline, interrupt);
  if (!answer) return error_of(std::move(answer).error());
  return answer->text_at(0) == "done";
}

Result<Released> Session::take_back(Instant deadline, Interrupt interrupt) {
  silent_ = true;
  auto released = release(deadline, interrupt);
  silent_ = false;
  token_ = claim_.token.value;
  hold_mode_ = mode_;
  return released;
}

Status Session::note(EventKind kind, const std::string& reason, Milliseconds waited, Instant deadline,
                     Interrupt interrupt) {
  const std::string id = claim_.token.id();
  const std::string time = std::to_string(waited.count());
  auto noted = client_.call(
      {scripts::k_note, keys_.own(), keys_.common(), {id, event_name(kind), mode_, details_, reason, time}},
      deadline, interrupt);
  if (!noted) return error_of(std::move(noted).error());
  return {};
}

}  // namespace klock::redis
