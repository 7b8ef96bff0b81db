// SPDX-License-Identifier: MIT
#include "store/redis/permitted_session.hpp"

namespace klock::redis {

// A call that finds out that scripts are forbidden has done nothing.
template <class Call>
auto PermittedSession::by_right(const Call& call) {
  if (!plain_) {
    auto outcome = call(scripted_);
    if (!scripted_.no_scripts()) return outcome;
    plain_ = std::make_unique<PlainSession>(site_, prefix_, scripted_.claim(), *scripted_.no_scripts());
    static_cast<void>(plain_->count_min_hold(min_hold_counts_));
  }
  return call(*plain_);
}

void PermittedSession::begin(bool enqueue, Instant deadline, Interrupt interrupt) {
  if (!plain_) scripted_.begin(enqueue, deadline, interrupt);
}

Result<Attempt> PermittedSession::attempt(bool enqueue, Instant deadline, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.attempt(enqueue, deadline, interrupt); });
}

Result<Wake> PermittedSession::await_news(Instant until, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.await_news(until, interrupt); });
}

void PermittedSession::withdraw(Instant deadline) {
  by_right([&](auto& session) { return session.withdraw(deadline), true; });
}

Result<Renewal> PermittedSession::renew(Instant deadline, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.renew(deadline, interrupt); });
}

Result<Renewal> PermittedSession::confirm(Instant deadline, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.confirm(deadline, interrupt); });
}

Result<Released> PermittedSession::release(Instant deadline, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.release(deadline, interrupt); });
}

Result<Released> PermittedSession::complete(Instant deadline, Interrupt interrupt) {
  return by_right([&](auto& session) { return session.complete(deadline, interrupt); });
}

Status PermittedSession::count_min_hold(bool counts) {
  min_hold_counts_ = counts;
  return by_right([&](auto& session) { return session.count_min_hold(counts); });
}

void PermittedSession::explain_end(EventKind kind, std::string reason) {
  scripted_.explain_end(kind, std::move(reason));
}

void PermittedSession::note_lost(const std::string& reason) {
  by_right([&](auto& session) { return session.note_lost(reason), true; });
}

}  // namespace klock::redis
