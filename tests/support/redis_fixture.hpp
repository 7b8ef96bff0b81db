// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_store.hpp"
#include "store/redis/redis_store.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "util/random.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace klock::test {

inline Instant in_ms(int milliseconds) {
  return BootClock::now() + Milliseconds(milliseconds);
}

// For what takes a moment.
inline Instant soon() {
  return in_ms(2000 * slow_factor());
}

inline std::int64_t ms_since(Instant start) {
  return std::chrono::duration_cast<Milliseconds>(BootClock::now() - start).count();
}

inline Claim make_claim(const std::string& name, int ttl_ms = 10000) {
  Claim claim;
  claim.lock = {name, "klock:" + name};
  claim.token = Token{random_hex128().value()};
  claim.ttl = Milliseconds(ttl_ms);
  claim.who = {"ann", "alpha", 4711, "import.sh", "nightly", ""};
  return claim;
}

inline bool is_held(const Result<Attempt>& attempt) {
  return attempt && std::holds_alternative<Lease>(*attempt);
}
inline bool is_busy(const Result<Attempt>& attempt) {
  return attempt && std::holds_alternative<Busy>(*attempt);
}
inline const Busy& busy_of(const Result<Attempt>& attempt) {
  return std::get<Busy>(*attempt);
}
inline const Lease& lease_of(const Result<Attempt>& attempt) {
  return std::get<Lease>(*attempt);
}

// What acquire() does, without its policies.
inline bool wait_for_lock(LockSession& session, int milliseconds) {
  const Instant end = in_ms(milliseconds * slow_factor());
  while (BootClock::now() < end) {
    const auto attempt = session.attempt(true, end, {});
    if (!is_busy(attempt)) return is_held(attempt);
    if (!session.await_news(std::min(end, busy_of(attempt).look_again), {})) return false;
  }
  return false;
}

// One server for all tests of a suite, emptied before each.
class RedisTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    server().command({"FLUSHALL"});
    store_ = open_redis_store(server().redis_url(), "klock:");
  }

  static RedisServer& server() { return *server_; }
  LockStore& store() { return *store_; }
  std::unique_ptr<LockSession> session(const std::string& name, int ttl_ms = 10000) {
    return store_->session(make_claim(name, ttl_ms));
  }
  LockState state(const std::string& name) {
    auto result = store_->inspect({name, "klock:" + name}, soon(), {});
    return result ? *result : LockState{};
  }
  // Names of the keys that exist, without the fences, which stay for a day, and those of the prefix (index,
  // log, statistics).
  std::string keys_left() {
    return server().command({"EVAL",
                             "local left = {} for _, key in ipairs(redis.call('KEYS', '*')) do if not "
                             "string.find(key, ':fence$') and not string.find(key, 'klock:}:') then "
                             "left[#left + 1] = key end end return left",
                             "0"});
  }
  // Keys that would stay for ever.
  std::string immortal_keys() {
    return server().command({"EVAL",
                             "local left = {} for _, key in ipairs(redis.call('KEYS', '*')) do if "
                             "redis.call('PTTL', key) < 0 then left[#left + 1] = key end end return left",
                             "0"});
  }

 private:
  static inline std::unique_ptr<RedisServer> server_;
  std::unique_ptr<LockStore> store_;
};

}  // namespace klock::test
