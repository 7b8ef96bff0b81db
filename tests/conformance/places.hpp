// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "lease/lock_store.hpp"
#include "store/open.hpp"
#include "support/redis_server.hpp"
#include "support/self_signed.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace klock::test {

// Where a store under test lives, and what can happen to it there.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  virtual std::string url() const = 0;
  virtual std::unique_ptr<LockStore> open() const { return open_store(*parse_store_url(url()), "klock:"); }

  virtual void lose_record(const std::string& key) = 0;  // somebody deletes what says that it is held
  virtual void stall() {}                                // the server answers nothing until resume()
  virtual void resume() {}
};

class LocalPlace : public Place {
 public:
  LocalPlace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "klock-conformance-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    directory_ = pattern;
  }
  ~LocalPlace() override { std::filesystem::remove_all(directory_); }

  std::string url() const override { return "local:" + directory_.string(); }
  void lose_record(const std::string&) override {
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      std::filesystem::remove(entry.path());
  }

 private:
  std::filesystem::path directory_;
};

class RedisPlace : public Place {
 public:
  explicit RedisPlace(bool over_socket) : over_socket_(over_socket) {
    server_.command({"PING"});  // once this is answered it listens on the socket too
  }

  std::string url() const override {
    return over_socket_ ? "unix://" + server_.socket_path() : server_.url();
  }
  void lose_record(const std::string& key) override {
    if (server_.number({"DEL", key}) != 1) throw std::runtime_error("no such key: " + key);
  }
  void stall() override { server_.freeze(); }
  void resume() override { server_.thaw(); }

 private:
  const bool over_socket_;
  RedisServer server_;
};

class TlsPlace : public Place {
 public:
  std::string url() const override { return "rediss://127.0.0.1:" + std::to_string(port_); }
  std::unique_ptr<LockStore> open() const override {
    StoreUrl store = *parse_store_url(url());
    for (RedisUrl* const server : servers_of(store)) server->tls->ca = certificate_.certificate();
    return open_store(store, "klock:");
  }
  void lose_record(const std::string& key) override {
    if (server_.number({"DEL", key}) != 1) throw std::runtime_error("no such key: " + key);
  }
  void stall() override { server_.freeze(); }
  void resume() override { server_.thaw(); }

 private:
  const SelfSigned certificate_;
  const std::uint16_t port_ = free_port();
  RedisServer server_{certificate_.server_options(port_)};
};

class SentinelPlace : public Place {
 public:
  std::string url() const override {
    return "redis-sentinel://127.0.0.1:" + std::to_string(sentinel_->port()) + "/mymaster";
  }
  void lose_record(const std::string& key) override {
    if (server_.number({"DEL", key}) != 1) throw std::runtime_error("no such key: " + key);
  }
  void stall() override { server_.freeze(); }
  void resume() override { server_.thaw(); }

 private:
  RedisServer server_;
  const std::unique_ptr<RedisServer> sentinel_ = RedisServer::sentinel_of(server_);
};

// Three masters without replicas.
class ClusterPlace : public Place {
 public:
  ClusterPlace() {
    constexpr int k_slots = 16384;
    for (int first = 0; first < k_slots; first += k_share) {
      servers_.push_back(RedisServer::cluster_node());
      const int last = std::min(first + k_share, k_slots) - 1;
      servers_.back()->command({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
    }
    for (const auto& server : servers_) servers_[0]->meet(*server);
    if (!eventually([this] { return is_whole(); }, 30000))
      throw std::runtime_error("the Cluster does not form");
  }

  std::string url() const override {
    return "redis-cluster://127.0.0.1:" + std::to_string(servers_[0]->port());
  }
  void lose_record(const std::string& key) override {
    for (const auto& server : servers_)
      if (server->command({"DEL", key}) == "1") return;
    throw std::runtime_error("no such key: " + key);
  }
  void stall() override {
    for (const auto& server : servers_) server->freeze();
  }
  void resume() override {
    for (const auto& server : servers_) server->thaw();
  }

 private:
  bool is_whole() const {
    return std::all_of(servers_.begin(), servers_.end(), [](const auto& server) {
      return server->command({"CLUSTER", "INFO"}).find("cluster_state:ok") != std::string::npos;
    });
  }

  static constexpr int k_share = 5500;
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

class RedlockPlace : public Place {
 public:
  std::string url() const override {
    std::string hosts;
    for (const RedisServer& server : servers_)
      hosts += (hosts.empty() ? "" : ",") + std::string("127.0.0.1:") + std::to_string(server.port());
    return "redlock://" + hosts;
  }
  void lose_record(const std::string& key) override {
    long long lost = 0;
    for (RedisServer& server : servers_) lost += server.number({"DEL", key});
    if (lost < 2) throw std::runtime_error("no such key: " + key);
  }
  void stall() override {
    for (RedisServer& server : servers_) server.freeze();
  }
  void resume() override {
    for (RedisServer& server : servers_) server.thaw();
  }

 private:
  std::array<RedisServer, 3> servers_;
};

struct PlaceMaker {
  const char* name;
  std::unique_ptr<Place> (*make)();
};
inline void PrintTo(const PlaceMaker& maker, std::ostream* out) {
  *out << maker.name;
}

inline const PlaceMaker k_local{"Local", [] { return std::unique_ptr<Place>(new LocalPlace); }};
inline const PlaceMaker k_redis{"Redis", [] { return std::unique_ptr<Place>(new RedisPlace(false)); }};
inline const PlaceMaker k_tls{"Tls", [] { return std::unique_ptr<Place>(new TlsPlace); }};
inline const PlaceMaker k_sentinel{"Sentinel", [] { return std::unique_ptr<Place>(new SentinelPlace); }};
inline const PlaceMaker k_cluster{"Cluster", [] { return std::unique_ptr<Place>(new ClusterPlace); }};
inline const PlaceMaker k_redlock{"Redlock", [] { return std::unique_ptr<Place>(new RedlockPlace); }};
inline const PlaceMaker k_redis_socket{"RedisSocket",
                                       [] { return std::unique_ptr<Place>(new RedisPlace(true)); }};

}  // namespace klock::test
