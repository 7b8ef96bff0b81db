// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "util/clock.hpp"
#include "util/result.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// Where a value came from, weakest first.
enum class Origin { built_in, system_file, user_file, environment, flag };

template <class T>
struct Setting {
  T value{};
  Origin origin = Origin::built_in;
  std::string where = "default";  // "--ttl", "KLOCK_TTL", "/etc/klock/klock.toml:3"
};

enum class OnLost { stop, warn };
enum class OnGone { lost, reclaim };
// When the store can't be reached.
enum class IfUnavailable {
  fail,
  wait,
  local,  // go on under the lock of this host
  run     // go on without a lock
};
enum class RecordCommand { name, full };

// Everything that can be configured: its names are the long option names (and the keys of the config file).
// Values are texts until load_settings() so that a mistake can be reported with its origin. A switch
// ("quiet", "verbose") has any value, "tree" "1" or "0"; -n is "wait" with the value 0.
using RawValues = std::map<std::string, Setting<std::string>>;

struct Settings {
  Setting<std::string> url_text;  // redacted: for messages
  StoreUrl url;
  Setting<std::string> sentinel_user;  // empty: AUTH with the password alone
  Setting<std::string> tls_ca;  // these four are in `url` too, where that is with TLS; empty: not given
  Setting<std::string> tls_cert;
  Setting<std::string> tls_key;
  Setting<std::string> tls_server_name;
  Setting<std::string> prefix;
  Setting<std::optional<Duration>> wait;  // nullopt: for ever; 0: do not wait
  Setting<Duration> ttl;
  Setting<Duration> kill_after;
  bool kill_after_given = false;
  Setting<Duration> store_timeout;
  Setting<int> conflict_exit_code;
  Setting<std::optional<std::size_t>> max_waiters;  // nullopt: any number
  Setting<std::string> signal;                      // as written; supervise/ knows the names
  Setting<OnLost> on_lost;
  Setting<OnGone> on_gone;
  Setting<IfUnavailable> if_unavailable;
  Setting<std::size_t> wait_replicas;
  Setting<Duration> max_hold;  // 0: none
  Setting<Duration> min_hold;  // 0: none
  Setting<Duration> once_ttl;
  Setting<int> skip_exit_code;
  Setting<bool> tree;
  Setting<std::string> message;
  Setting<std::string> outcome_file;
  Setting<std::string> audit_file;
  Setting<RecordCommand> record_command;
  Setting<std::string> group;  // empty: that of the name
  Setting<int> verbosity;      // -1 quiet, 0, 1 verbose
  std::vector<std::string>
      remarks;  // for describe_settings(): where the password comes from, who can read it
};

// Flags beat the environment, the environment the user's file, that the system's file, that the defaults.
// Environment: KLOCK_URL, KLOCK_PREFIX, KLOCK_TTL, KLOCK_TLS_CA, KLOCK_TLS_CERT, KLOCK_TLS_KEY,
// KLOCK_TLS_SERVER_NAME, KLOCK_CONFIG, KLOCK_PASSWORD_FILE, KLOCK_SENTINEL_PASSWORD_FILE, REDISCLI_AUTH.
// Files:
// --config or KLOCK_CONFIG alone if given, else $XDG_CONFIG_HOME/klock/klock.toml (~/.config) and
// /etc/klock/klock.toml. Errors: usage for a value from a flag, config for one from the environment or a file
// (unreadable, not TOML, unknown key, wrong value), always with where it stands. A password in a --url flag
// is a usage error. Blocking: reads files only.
Result<Settings> load_settings(const RawValues& flags);

// Of whoever stops a command: the time to die in must leave two thirds of the lease for renewing. Errors:
// usage, config.
Status check_kill_after(const Settings& settings);

// One line per setting, "ttl 15s (default)", for -v. Never shows a secret.
std::vector<std::string> describe_settings(const Settings& settings);

}  // namespace klock
