// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace klock::test {

// A session that answers from scripts: each call takes the next answer, and the last one stays. Calls are
// logged.
class FakeSession : public LockSession {
 public:
  template <class T>
  using Script = std::deque<std::function<Result<T>(Instant deadline, Interrupt interrupt)>>;

  Script<Attempt> attempts;
  Script<Wake> wakes;
  Script<Renewal> renewals;
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::size_t count(const std::string& call) const {
    std::size_t n = 0;
    for (const auto& one : calls()) n += one == call;
    return n;
  }

  void begin(bool, Instant, Interrupt) override { log("begin"); }
  Result<Attempt> attempt(bool enqueue, Instant deadline, Interrupt interrupt) override {
    log(enqueue ? "attempt" : "attempt once");
    return next(attempts, deadline, interrupt);
  }
  Result<Wake> await_news(Instant until, Interrupt interrupt) override {
    log("await");
    return next(wakes, until, interrupt);
  }
  void withdraw(Instant) override { log("withdraw"); }
  Result<Renewal> renew(Instant deadline, Interrupt interrupt) override {
    log("renew");
    return next(renewals, deadline, interrupt);
  }
  Result<Renewal> confirm(Instant deadline, Interrupt interrupt) override {
    log("confirm");
    return next(renewals, deadline, interrupt);
  }
  Result<Released> release(Instant, Interrupt) override {
    log("release");
    return Released::done;
  }
  Result<Released> complete(Instant, Interrupt) override {
    log("complete");
    return Released::done;
  }
  Status count_min_hold(bool counts) override {
    log(counts ? "count min_hold" : "do not count min_hold");
    return {};
  }

 private:
  void log(const char* call) {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back(call);
  }
  template <class T>
  static Result<T> next(Script<T>& script, Instant deadline, Interrupt interrupt) {
    auto answer = script.front();
    if (script.size() > 1) script.pop_front();
    return answer(deadline, interrupt);
  }

  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
};

// Sleeps like a store without news.
inline Result<Wake> no_news(Instant until, Interrupt interrupt) {
  return wait_ready(-1, 0, until, interrupt) == Ready::interrupted ? Wake::interrupted : Wake::timeout;
}

}  // namespace klock::test
