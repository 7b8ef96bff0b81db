// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "support/eventually.hpp"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct redisContext;

namespace klock::test {

// A redis-server of the test's own, on a free port of 127.0.0.1 and a Unix socket, with an empty directory
// and without persistence unless `options` say more. KLOCK_TEST_SERVER names another program to be started
// instead. It dies with the thread that started it. Everything throws std::runtime_error on failure.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {});
  // A Sentinel that watches `master` as "mymaster".
  static std::unique_ptr<RedisServer> sentinel_of(const RedisServer& master);
  // A server of a Cluster that it is alone in, and has no slots.
  static std::unique_ptr<RedisServer> cluster_node();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start();   // after kill(): same port, same directory; returns when it answers (LOADING counts)
  void kill();    // SIGKILL, and waits
  void freeze();  // SIGSTOP
  void thaw();    // SIGCONT

  std::uint16_t port() const { return port_; }
  std::string socket_path() const { return directory_ + "/redis.sock"; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  void meet(const RedisServer& other);  // of the same Cluster from now on
  RedisUrl redis_url() const;

  // The reply as text: integers in decimal, nil as "(nil)", the items of an array joined by spaces, errors as
  // they are.
  std::string command(const std::vector<std::string>& words);
  long long number(const std::vector<std::string>& words);

 private:
  RedisServer(std::vector<std::string> options, std::string sentinel_config);

  std::vector<std::string> options_;
  std::string sentinel_config_;  // empty: no Sentinel
  std::string directory_;
  std::uint16_t port_ = 0;
  std::uint16_t bus_port_ = 0;
  pid_t pid_ = -1;
  redisContext* client_ = nullptr;
};

// A port on which nobody listens.
std::uint16_t free_port();

}  // namespace klock::test
