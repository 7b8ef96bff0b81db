// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "places.hpp"
#include "support/eventually.hpp"
#include "util/random.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace klock::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Claim claim_of(const std::string& name, Duration ttl = seconds(10)) {
  Claim claim;
  claim.lock = LockName{name, "klock:" + name};
  claim.token = Token{*random_hex128()};
  claim.ttl = ttl;
  claim.who = describe_self("conformance", "message of " + name);
  return claim;
}

inline Instant in(Duration time) {
  return BootClock::now() + time;
}
// For what takes a moment.
inline Instant soon() {
  return in(test::stretched(seconds(2)));
}

class StoreConformance : public testing::TestWithParam<PlaceMaker> {
 protected:
  void SetUp() override {
    place_ = GetParam().make();
    store_ = place_->open();
  }

  std::unique_ptr<LockSession> session(Duration ttl = seconds(10)) {
    return store_->session(claim_of("n", ttl));
  }

  // Attempts until held, as acquire() does; nullopt: not within 5 s.
  static std::optional<Lease> take(LockSession& session, Duration limit = seconds(5)) {
    const Instant end = in(test::stretched(limit));
    while (BootClock::now() < end) {
      const auto attempt = session.attempt(true, end, {});
      if (!attempt) continue;
      if (const auto* lease = std::get_if<Lease>(&*attempt)) return *lease;
      if (const auto* busy = std::get_if<Busy>(&*attempt)) {
        const auto wake = session.await_news(std::min(end, busy->look_again), {});
        (void)wake;
      }
    }
    return std::nullopt;
  }

  static bool is_busy(LockSession& session, bool enqueue = false) {
    const auto attempt = session.attempt(enqueue, soon(), {});
    return attempt && std::holds_alternative<Busy>(*attempt);
  }

  LockState look() {
    auto state = store_->inspect(claim_of("n").lock, soon(), {});
    EXPECT_TRUE(state) << state.error().what;
    return state ? *state : LockState{};
  }

  std::unique_ptr<Place> place_;
  std::unique_ptr<LockStore> store_;
};

inline const auto by_place = [](const auto& instance) { return instance.param.name; };

}  // namespace klock::test
