// SPDX-License-Identifier: MIT
#include "config/store_url.hpp"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace klock {
namespace {

constexpr std::string_view k_hidden = "***";
constexpr std::uint16_t k_sentinel_port = 26379;

// What is wrong with a URL, without any part of it.
struct Wrong {
  std::string reason;
  std::string hint;
};
using Parsed = tl::expected<StoreUrl, Wrong>;

tl::unexpected<Wrong> malformed(std::string reason, std::string hint = {}) {
  return tl::unexpected<Wrong>(Wrong{std::move(reason), std::move(hint)});
}

std::optional<std::string_view> after(std::string_view text, std::string_view start) {
  if (!text.starts_with(start)) return std::nullopt;
  return text.substr(start.size());
}

std::optional<int> parse_number(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (text.empty() || text.front() == '-' || value > most) return std::nullopt;
  return value;
}

constexpr int k_most_databases = 1'000'000;

std::optional<int> parse_database(std::string_view text) {
  return parse_number(text, k_most_databases);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
}

bool is_host(std::string_view host) {
  return !host.empty() && std::none_of(host.begin(), host.end(), [](char c) {
    return is_control(c) || std::string_view(" ,:@?#%[]\\\"'<>").find(c) != std::string_view::npos;
  });
}

bool is_address(std::string_view address) {
  return !address.empty() && std::all_of(address.begin(), address.end(), [](char c) {
    return hex_value(c) >= 0 || c == ':' || c == '.' || c == '%' || (c >= 'a' && c <= 'z');
  });
}

Parsed parse_local(std::string_view rest) {
  if (rest.empty()) return LocalUrl{};
  const bool has_host = rest.starts_with("//") && !rest.starts_with("///");
  if (rest.front() != '/' || has_host)
    return malformed("the directory must be an absolute path", "for example local:/srv/locks");
  if (std::any_of(rest.begin(), rest.end(), is_control)) return malformed("control character in the path");
  return LocalUrl{std::string(rest.substr(rest.find_last_of('/', rest.find_first_not_of('/'))))};
}

Parsed parse_socket(std::string_view rest) {
  RedisUrl url;
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    const auto database = after(rest.substr(question), "?db=");
    const std::optional<int> number = database ? parse_database(*database) : std::nullopt;
    if (!number) return malformed("after '?' only db=N is understood");
    url.database = *number;
    rest = rest.substr(0, question);
  }
  if (!rest.starts_with('/') || rest == "/")
    return malformed("the path must be absolute", "for example unix:///run/redis/redis.sock");
  if (std::any_of(rest.begin(), rest.end(), is_control)) return malformed("control character in the path");
  if (rest.size() >= sizeof(sockaddr_un::sun_path)) return malformed("the path is too long for a socket");
  url.socket_path = rest;
  return url;
}

// "user:password" into `url`. False: bad percent-encoding.
bool take_login(std::string_view login, RedisUrl& url) {
  const std::size_t colon = std::min(login.find(':'), login.size());
  const auto user = percent_decode(login.substr(0, colon));
  const auto password = percent_decode(login.substr(std::min(colon + 1, login.size())));
  if (!user || !password) return false;
  url.user = *user;
  url.password = Secret(*password);
  return true;
}

// "host", "host:port", "[address]:port" into `url`. Returns what is wrong, or "".
std::string take_endpoint(std::string_view endpoint, RedisUrl& url) {
  std::string_view port;
  if (endpoint.starts_with('[')) {
    const std::size_t close = endpoint.find(']');
    if (close == std::string_view::npos) return "']' is missing";
    url.host = endpoint.substr(1, close - 1);
    port = endpoint.substr(close + 1);
    if (!is_address(url.host)) return "no IPv6 address between '[' and ']'";
    if (!port.empty() && port.front() != ':') return "after ']' only :PORT is understood";
  } else {
    const std::size_t colon = std::min(endpoint.find(':'), endpoint.size());
    url.host = endpoint.substr(0, colon);
    port = endpoint.substr(colon);
    if (url.host.empty()) return "the host is missing";
    if (!is_host(url.host)) return "the host has a character that no host name has";
  }
  if (port.empty()) return {};
  const std::optional<int> number = parse_number(port.substr(1), 65535);
  if (!number || *number == 0) return "the port must be a number from 1 to 65535";
  url.port = static_cast<std::uint16_t>(*number);
  return {};
}

// "[user[:password]@]hosts/path" without the login, which goes into `url`.
struct Place {
  std::string_view hosts;
  std::string_view path;
};
tl::expected<Place, Wrong> take_place(std::string_view rest, RedisUrl& url) {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  const std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
  if (path.find('@') != std::string_view::npos)
    return malformed("'@' after '/'", "in a password write / as %2F and @ as %40");
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    if (!take_login(authority.substr(0, at), url))
      return malformed("bad percent-encoding before '@'", "in a password write % as %25");
    authority.remove_prefix(at + 1);
  }
  return Place{authority, path};
}

// What is wrong with the login of several hosts, if anything. What looks like a host in front of it would be
// a part of the user's name.
std::optional<Wrong> misplaced_login(std::string_view rest) {
  if (std::count(rest.begin(), rest.end(), '@') > 1)
    return Wrong{"several '@'", "one login, before all hosts; in a password write @ as %40"};
  const std::size_t separator = rest.substr(0, rest.rfind('@')).find_first_of(",/");
  if (rest.find('@') == std::string_view::npos || separator == std::string_view::npos ||
      rest[separator] != ',')
    return std::nullopt;
  return Wrong{"the login is not in front of the first host",
               "one login, before all hosts; in a password write , as %2C"};
}

Parsed parse_tcp(std::string_view rest) {
  RedisUrl url;
  const auto place = take_place(rest, url);
  if (!place) return tl::unexpected<Wrong>(place.error());
  if (const std::string wrong = take_endpoint(place->hosts, url); !wrong.empty()) return malformed(wrong);
  if (!place->path.empty()) {
    const std::optional<int> database = parse_database(place->path);
    if (!database) return malformed("after the host only /DB, a number, is understood");
    url.database = *database;
  }
  return url;
}

// "host[:port],..." into `servers`, each made from `like`. Returns what is wrong, or "".
std::string take_endpoints(std::string_view hosts, const RedisUrl& like, std::vector<RedisUrl>& servers) {
  for (;;) {
    const std::size_t comma = std::min(hosts.find(','), hosts.size());
    RedisUrl& server = servers.emplace_back(like);
    if (std::string wrong = take_endpoint(hosts.substr(0, comma), server); !wrong.empty()) return wrong;
    if (comma == hosts.size()) return {};
    hosts.remove_prefix(comma + 1);
  }
}

Parsed parse_cluster(std::string_view rest) {
  if (auto wrong = misplaced_login(rest)) return tl::unexpected<Wrong>(*std::move(wrong));
  RedisUrl login;
  const auto place = take_place(rest, login);
  if (!place) return tl::unexpected<Wrong>(place.error());
  ClusterUrl url;
  if (const std::string wrong = take_endpoints(place->hosts, login, url.nodes); !wrong.empty())
    return malformed(wrong);
  if (!place->path.empty())
    return malformed("a Redis Cluster has only database 0", "nothing after the hosts");
  return url;
}

// A server that is named twice would have two votes.
Parsed parse_redlock(std::string_view rest) {
  if (auto wrong = misplaced_login(rest)) return tl::unexpected<Wrong>(*std::move(wrong));
  RedisUrl like;
  const auto place = take_place(rest, like);
  if (!place) return tl::unexpected<Wrong>(place.error());
  if (!place->path.empty()) {
    const std::optional<int> database = parse_database(place->path);
    if (!database) return malformed("after the hosts only /DB, a number, is understood");
    like.database = *database;
  }
  RedlockUrl url;
  if (const std::string wrong = take_endpoints(place->hosts, like, url.servers); !wrong.empty())
    return malformed(wrong);
  for (auto one = url.servers.begin(); one != url.servers.end(); ++one)
    if (std::any_of(url.servers.begin(), one, [&](const RedisUrl& other) {
          return other.host == one->host && other.port == one->port;
        }))
      return malformed("a server is named twice");
  if (url.servers.size() < k_fewest_redlock_servers)
    return malformed("a majority of fewer than " + std::to_string(k_fewest_redlock_servers) +
                         " servers is no better than one server",
                     "name three or five independent ones, or use redis://");
  return url;
}

bool is_master_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && std::none_of(name.begin(), name.end(), [](char c) {
    return is_control(c) || std::string_view(" /?#%").find(c) != std::string_view::npos;
  });
}

Parsed parse_sentinel(std::string_view rest) {
  SentinelUrl url;
  if (auto wrong = misplaced_login(rest)) return tl::unexpected<Wrong>(*std::move(wrong));
  auto place = take_place(rest, url.server);
  if (!place) return tl::unexpected<Wrong>(place.error());
  RedisUrl sentinel;
  sentinel.port = k_sentinel_port;
  if (const std::string wrong = take_endpoints(place->hosts, sentinel, url.sentinels); !wrong.empty())
    return malformed(wrong);
  const std::size_t slash = std::min(place->path.find('/'), place->path.size());
  const std::string_view master = place->path.substr(0, slash);
  if (!is_master_name(master))
    return malformed("the master's name is missing after the hosts",
                     "for example redis-sentinel://s1,s2,s3/mymaster");
  url.master = master;
  if (slash < place->path.size()) {
    const std::optional<int> database = parse_database(place->path.substr(slash + 1));
    if (!database) return malformed("after the master's name only /DB, a number, is understood");
    url.server.database = *database;
  }
  return url;
}

// The scheme of `text` without its ':', empty if it does not begin with one.
std::string_view scheme_of(std::string_view text) {
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
  return end != std::string_view::npos && text[end] == ':' ? text.substr(0, end) : std::string_view();
}

// How much of "host:port" at the start of `text` is surely no part of a password.
std::size_t harmless_length(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t end = std::min({text.find_first_of("/?#"), text.size()});
  if (colon >= end) return end;
  const std::string_view port = text.substr(colon + 1, end - colon - 1);
  const bool digits = port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? end : colon;
}

Parsed with_tls(Parsed parsed) {
  if (parsed)
    for (RedisUrl* const server : servers_of(*parsed)) server->tls.emplace();
  return parsed;
}

Parsed parse(const std::string& text) {
  if (text.empty()) return malformed("it is empty", "local: is this host's store");
  const std::string_view whole = text;
  if (const auto rest = after(whole, "local:")) return parse_local(*rest);
  if (const auto rest = after(whole, "redis://")) return parse_tcp(*rest);
  if (const auto rest = after(whole, "rediss://")) return with_tls(parse_tcp(*rest));
  if (const auto rest = after(whole, "redis-sentinel://")) return parse_sentinel(*rest);
  if (const auto rest = after(whole, "rediss-sentinel://")) return with_tls(parse_sentinel(*rest));
  if (const auto rest = after(whole, "redis-cluster://")) return parse_cluster(*rest);
  if (const auto rest = after(whole, "rediss-cluster://")) return with_tls(parse_cluster(*rest));
  if (const auto rest = after(whole, "unix://")) return parse_socket(*rest);
  if (const auto rest = after(whole, "redlock://")) return parse_redlock(*rest);
  if (const auto rest = after(whole, "redlocks://")) return with_tls(parse_redlock(*rest));
  return malformed(
      "it begins with no scheme that klock knows",
      "use local:, unix://, redis://, redis-sentinel://, redis-cluster://, redlock://, or with TLS "
      "rediss for redis, redlocks for redlock");
}

// A part before '@' without a colon is hidden too: it may be a password whose colon was forgotten.
std::string redact_well_formed(std::string_view text) {
  const std::size_t start = text.find("://");
  const std::size_t at = text.rfind('@');
  if (!text.starts_with("red") || at == std::string_view::npos) return std::string(text);
  const std::string_view login = text.substr(start + 3, at - start - 3);
  const std::size_t colon = login.find(':');
  std::string shown(text.substr(0, start + 3));
  if (colon != std::string_view::npos) shown.append(login.substr(0, colon + 1));
  return shown.append(k_hidden).append(text.substr(at));
}

std::string redact_malformed(std::string_view text) {
  std::string shown;
  if (const std::size_t mark = text.find("://");
      mark != std::string_view::npos && mark == scheme_of(text).size()) {
    shown = text.substr(0, mark + 3);
    text.remove_prefix(mark + 3);
  }
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    shown.append(k_hidden) += '@';
    text.remove_prefix(at + 1);
  }
  const std::size_t harmless = harmless_length(text);
  shown += text.substr(0, harmless);
  if (harmless < text.size()) shown.append(1, text[harmless]).append(k_hidden);
  return shown;
}

}  // namespace

Result<StoreUrl> parse_store_url(const std::string& text) {
  Parsed parsed = parse(text);
  if (parsed) return *std::move(parsed);
  return failure(ErrorKind::usage,
                 "the store URL '" + redact_url(text) + "' is wrong: " + parsed.error().reason,
                 std::move(parsed.error().hint));
}

std::vector<RedisUrl*> servers_of(StoreUrl& url) {
  std::vector<RedisUrl*> servers;
  if (auto* const redis = std::get_if<RedisUrl>(&url)) servers.push_back(redis);
  if (auto* const sentinel = std::get_if<SentinelUrl>(&url)) {
    for (RedisUrl& one : sentinel->sentinels) servers.push_back(&one);
    servers.push_back(&sentinel->server);
  }
  if (auto* const cluster = std::get_if<ClusterUrl>(&url))
    for (RedisUrl& node : cluster->nodes) servers.push_back(&node);
  if (auto* const redlock = std::get_if<RedlockUrl>(&url))
    for (RedisUrl& server : redlock->servers) servers.push_back(&server);
  return servers;
}

bool shows_password(const std::string& text) {
  const std::string_view before = std::string_view(text).substr(0, std::min(text.rfind('@'), text.size()));
  if (before.size() == text.size()) return false;
  const std::size_t start = before.find_last_of(",/") + 1;  // 0 if there is none
  const std::size_t colon = before.find(':', start);
  return colon != std::string_view::npos && colon + 1 < before.size();
}

std::string redact_url(const std::string& text) {
  return parse(text) ? redact_well_formed(text) : redact_malformed(text);
}

}  // namespace klock
