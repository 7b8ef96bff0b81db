// SPDX-License-Identifier: MIT
#include "config/sources.hpp"

#include "config/config_file.hpp"
#include "config/read_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace klock {
namespace {

constexpr const char* k_system_file = "/etc/klock/klock.toml";

// An empty variable counts as none: that is how scripts switch one off.
const char* environment(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value != '\0' ? value : nullptr;
}

enum class Need { optional, required };

// A system that is short of something is no mistake in the configuration.
ErrorKind kind_of(int code, ErrorKind usual) {
  return code == EMFILE || code == ENFILE || code == ENOMEM || code == EIO ? ErrorKind::system : usual;
}

// A file that is there but can't be read is an error even by default: going on without it could silently mean
// another store, and so no exclusion at all.
Status add_file(const std::string& path, Origin origin, Need need, ErrorKind kind, const char* hint,
                RawValues& values) {
  const auto text = read_config_text(path);
  if (text) return add_config_file(*text, path, origin, values);
  const bool missing = text.error() == ENOENT || text.error() == ENOTDIR;
  if (missing && need == Need::optional) return {};
  return failure(kind_of(text.error(), kind),
                 "cannot read the configuration file " + path + ": " + std::strerror(text.error()), hint);
}

std::string user_file() {
  // The XDG specification has relative paths ignored.
  if (const char* const xdg = environment("XDG_CONFIG_HOME"); xdg && *xdg == '/')
    return std::string(xdg) + "/klock/klock.toml";
  if (const char* const home = environment("HOME")) return std::string(home) + "/.config/klock/klock.toml";
  return {};
}

Status add_files(const RawValues& flags, RawValues& values) {
  if (const auto flag = flags.find("config"); flag != flags.end()) {
    if (flag->second.value.empty()) return failure(ErrorKind::usage, "--config: the file name is empty");
    return add_file(flag->second.value, Origin::user_file, Need::required, ErrorKind::usage, "", values);
  }
  if (const char* const path = environment("KLOCK_CONFIG"))
    return add_file(path, Origin::user_file, Need::required, ErrorKind::config, "KLOCK_CONFIG names it",
                    values);
  constexpr const char* k_hint = "KLOCK_CONFIG names another one";
  KLOCK_CHECK(
      add_file(k_system_file, Origin::system_file, Need::optional, ErrorKind::config, k_hint, values));
  const std::string path = user_file();
  if (path.empty()) return {};
  return add_file(path, Origin::user_file, Need::optional, ErrorKind::config, k_hint, values);
}

void add_environment(RawValues& values) {
  struct Variable {
    const char* name;
    const char* key;
  };
  constexpr Variable k_variables[] = {{"KLOCK_URL", "url"},
                                      {"KLOCK_PREFIX", "prefix"},
                                      {"KLOCK_TTL", "ttl"},
                                      {"KLOCK_TLS_CA", "tls-ca"},
                                      {"KLOCK_TLS_CERT", "tls-cert"},
                                      {"KLOCK_TLS_KEY", "tls-key"},
                                      {"KLOCK_TLS_SERVER_NAME", "tls-server-name"}};
  for (const Variable& variable : k_variables)
    if (const char* const value = environment(variable.name))
      values[variable.key] = {value, Origin::environment, variable.name};
}

// The first line of the file that `variable` names.
Result<Secret> read_password(const std::string& variable, const std::string& path) {
  const auto text = read_config_text(path);
  if (!text)
    return failure(kind_of(text.error(), ErrorKind::config),
                   variable + ": cannot read " + path + ": " + std::strerror(text.error()));
  std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return failure(ErrorKind::config, variable + ": the first line of " + path + " is empty");
  return Secret(std::string(line));
}

// The path in "PATH:LINE".
std::string file_of(const std::string& where) {
  return where.substr(0, where.rfind(':'));
}

void remark_on_url_password(Settings& settings) {
  const Origin origin = settings.url_text.origin;
  if (origin != Origin::user_file && origin != Origin::system_file) return;
  const std::string path = file_of(settings.url_text.where);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0)
    settings.remarks.push_back("warning: others can read the password in " + path +
                               "; chmod 600 would hide it");
}

}  // namespace

Result<RawValues> collect_values(const RawValues& flags) {
  RawValues values;
  KLOCK_CHECK(add_files(flags, values));
  add_environment(values);
  for (const auto& [name, value] : flags) {
    if (name == "quiet" || name == "verbose")
      values["verbosity"] = {name == "quiet" ? "-1" : "1", value.origin, value.where};
    else
      values[name] = value;
  }
  return values;
}

namespace {

Status take_sentinel_password(Settings& settings, SentinelUrl& url) {
  Secret password;
  constexpr const char* k_variable = "KLOCK_SENTINEL_PASSWORD_FILE";
  if (const char* const path = environment(k_variable)) {
    KLOCK_TRY(read, read_password(k_variable, path));
    password = std::move(read);
    settings.remarks.push_back(std::string("the Sentinels' password from the file in ") + k_variable);
  }
  for (RedisUrl& sentinel : url.sentinels) {
    sentinel.user = settings.sentinel_user.value;
    sentinel.password = password;
  }
  return {};
}

// Those that keep locks; they have the same login.
std::vector<RedisUrl*> lock_servers(StoreUrl& url) {
  if (auto* const server = std::get_if<RedisUrl>(&url)) return {server};
  if (auto* const sentinel = std::get_if<SentinelUrl>(&url)) return {&sentinel->server};
  std::vector<RedisUrl*> servers;
  if (auto* const cluster = std::get_if<ClusterUrl>(&url))
    for (RedisUrl& node : cluster->nodes) servers.push_back(&node);
  if (auto* const redlock = std::get_if<RedlockUrl>(&url))
    for (RedisUrl& server : redlock->servers) servers.push_back(&server);
  return servers;
}

}  // namespace

tl::unexpected<Error> password_in_flag() {
  return failure(ErrorKind::usage,
                 "--url: a password on the command line can be read by everyone on this host",
                 "put the URL into KLOCK_URL or klock.toml, or the password into KLOCK_PASSWORD_FILE or "
                 "REDISCLI_AUTH");
}

Status take_password(Settings& settings) {
  if (auto* const sentinel = std::get_if<SentinelUrl>(&settings.url))
    KLOCK_CHECK(take_sentinel_password(settings, *sentinel));
  const std::vector<RedisUrl*> servers = lock_servers(settings.url);
  if (servers.empty()) return {};
  const auto set_password = [&](const Secret& password) {
    for (RedisUrl* const server : servers) server->password = password;
  };
  if (!servers[0]->password.empty()) {
    if (settings.url_text.origin == Origin::flag) return password_in_flag();
    remark_on_url_password(settings);
    return {};
  }
  if (const char* const path = environment("KLOCK_PASSWORD_FILE")) {
    KLOCK_TRY(password, read_password("KLOCK_PASSWORD_FILE", path));
    set_password(password);
    settings.remarks.push_back("password from the file in KLOCK_PASSWORD_FILE");
  } else if (const char* const password = environment("REDISCLI_AUTH")) {
    set_password(Secret(password));
    settings.remarks.push_back("password from REDISCLI_AUTH");
  }
  return {};
}

}  // namespace klock
