// SPDX-License-Identifier: MIT
#include "store/redis/route.hpp"

#include "store/redis/cluster.hpp"
#include "store/redis/sentinel.hpp"

#include <algorithm>
#include <vector>

namespace klock::redis {
namespace {

constexpr Duration k_shortest_patience = std::chrono::milliseconds(500);
constexpr Duration k_not_worth_asking = std::chrono::milliseconds(50);

class DirectRoute final : public Route {
 public:
  explicit DirectRoute(const RedisUrl& url) : url_(url) {}

  Io<std::unique_ptr<Connection>> open(Instant deadline, Interrupt interrupt) override {
    return Connection::open(url_, Login::plain, deadline, interrupt);
  }

 private:
  const RedisUrl url_;
};

std::string login_of(const RedisUrl& url) {
  return url.password.empty() ? "" : url.user + ":***@";
}

std::string database_of(const RedisUrl& url) {
  return url.database == 0 ? "" : "/" + std::to_string(url.database);
}

// "redis" or "rediss".
std::string scheme_of(const RedisUrl& url) {
  return url.tls ? "rediss" : "redis";
}

std::string describe_url(const RedisUrl& url) {
  if (!url.socket_path.empty())
    return "unix://" + url.socket_path + (url.database != 0 ? "?db=" + std::to_string(url.database) : "");
  return scheme_of(url) + "://" + login_of(url) + describe_endpoint(url) + database_of(url);
}

std::string hosts_of(const std::vector<RedisUrl>& servers) {
  std::string text;
  for (const RedisUrl& server : servers) text += (text.empty() ? "" : ",") + describe_endpoint(server);
  return text;
}

std::string describe_url(const SentinelUrl& url) {
  return scheme_of(url.server) + "-sentinel://" + login_of(url.server) + hosts_of(url.sentinels) + "/" +
         url.master + database_of(url.server);
}

std::string describe_url(const ClusterUrl& url) {
  return scheme_of(url.nodes[0]) + "-cluster://" + login_of(url.nodes[0]) + hosts_of(url.nodes);
}

std::unique_ptr<Route> route_to(const RedisUrl& url, std::string_view) {
  return std::make_unique<DirectRoute>(url);
}
std::unique_ptr<Route> route_to(const SentinelUrl& url, std::string_view) {
  return std::make_unique<SentinelRoute>(url);
}
std::unique_ptr<Route> route_to(const ClusterUrl& url, std::string_view key) {
  return std::make_unique<ClusterRoute>(url, slot_of(key));
}

}  // namespace

std::string describe(const Site& site) {
  return std::visit([](const auto& url) { return describe_url(url); }, site);
}

std::unique_ptr<Route> make_route(const Site& site, std::string_view key) {
  return std::visit([&](const auto& url) { return route_to(url, key); }, site);
}

Duration Route::patience(Duration left) const {
  if (!may_change() || left < k_not_worth_asking) return left;
  return std::max(left / 4, std::min(left / 2, k_shortest_patience));
}

}  // namespace klock::redis
