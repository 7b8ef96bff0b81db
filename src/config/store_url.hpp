// SPDX-License-Identifier: MIT
#pragma once

#include "util/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace klock {

// Text that must never be shown: no stream operator, no implicit conversion.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

struct LocalUrl {
  std::string directory;  // empty: the default directory
};

// How to know the servers, and to be known by them: files with PEM.
struct TlsSettings {
  std::string ca = {};           // of authorities, or a directory of hashed names; empty: the system's
  std::string certificate = {};  // ours, with its chain; empty: none
  std::string key = {};          // of the certificate
  std::string server_name = {};  // in the server's certificate; empty: the host of the URL
  bool operator==(const TlsSettings&) const = default;
};

struct RedisUrl {
  std::string user;  // empty: AUTH with the password alone
  Secret password;
  std::string host;  // name or address without brackets; empty for a socket path
  std::uint16_t port = 6379;
  std::string socket_path;  // unix://
  int database = 0;
  std::optional<TlsSettings> tls = {};  // nullopt: without
};

// The master that Sentinels name.
struct SentinelUrl {
  std::vector<RedisUrl> sentinels;  // at least one; user and password: theirs
  std::string master;               // its name there
  RedisUrl server;                  // how to log in to it, and the database; it has no host
};

// A Redis Cluster.
struct ClusterUrl {
  std::vector<RedisUrl> nodes;  // some of its servers, at least one, all with the same login
};

// Independent servers of which a majority decides.
struct RedlockUrl {
  std::vector<RedisUrl> servers;  // at least k_fewest_redlock_servers, all different, with the same login
};
inline constexpr std::size_t k_fewest_redlock_servers = 3;

using StoreUrl = std::variant<LocalUrl, RedisUrl, SentinelUrl, ClusterUrl, RedlockUrl>;

// Parses `local:[/dir]`, `redis://[user[:password]@]host[:port][/db]`, `unix:///path.sock[?db=N]`,
// `redis-sentinel://[user[:password]@]host[:port],.../master[/db]`,
// `redis-cluster://[user[:password]@]host[:port],...`, `redlock://[user[:password]@]host[:port],...[/db]`;
// `rediss` instead of `redis`, and `redlocks`, are with TLS, of which the URL says nothing more. User and
// password are percent-decoded; Sentinels have others. Errors (usage): a malformed URL, an unknown scheme,
// port 0, too few or equal servers of a Redlock, with the redacted URL and the reason.
Result<StoreUrl> parse_store_url(const std::string& text);

// Every server that the URL tells how to reach, also the one whose host is to be found out.
std::vector<RedisUrl*> servers_of(StoreUrl& url);

// Whether there is "user:password@" in it, however malformed it is.
bool shows_password(const std::string& text);

// The URL for people: the password, if any, as `***`. Works on malformed input too, and then hides whatever
// could be a password.
std::string redact_url(const std::string& text);

}  // namespace klock
