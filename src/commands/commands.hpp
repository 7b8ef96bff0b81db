// SPDX-License-Identifier: MIT
#pragma once

#include "config/settings.hpp"
#include "lease/claim.hpp"
#include "output/shell_quote.hpp"
#include "output/watch_view.hpp"

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace klock {

// What was asked for on the command line, one struct a subcommand, with nothing of the command line's syntax
// left. `flags` holds the values given as options, by long name; each command resolves them with
// load_settings(). Each function does the whole job, reports failures on stderr and returns the exit status
// (util/exit_status.hpp). Preconditions: single-threaded, no descriptors of ours open.

struct RunRequest {
  RawValues flags;
  std::string name;
  std::optional<std::string> key;  // --key
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;                     // of Mode::slots
  std::vector<std::string> also;             // names of the other locks
  std::optional<std::string> once;           // --once, its key
  std::optional<std::string> unless;         // --unless, a shell command
  std::vector<std::string> command;          // argv of the command, or
  std::optional<std::string> shell_command;  // -c
};
int run(const RunRequest& request);

struct OnceRequest {
  RawValues flags;
  enum class What { show, clear } what = What::show;
  std::string name;
  std::string once;                // the key of the work
  std::optional<std::string> key;  // --key, of the lock
  bool json = false;
};
int once(const OnceRequest& request);

struct StatusRequest {
  RawValues flags;
  std::vector<std::string> names;  // empty: all that list shows
  std::optional<std::string> key;  // goes with exactly one name
  bool json = false;
};
int status(const StatusRequest& request);

struct ListRequest {
  RawValues flags;
  std::string pattern;
  bool json = false;
  bool names_only = false;             // one name a line, for completions
  std::optional<Duration> older_than;  // only what has been held for at least this long
};
int list(const ListRequest& request);

struct LogRequest {
  RawValues flags;
  std::string pattern;             // empty: all
  std::optional<std::string> key;  // instead of a pattern
  std::optional<Duration> since;   // nullopt: all that there is
  bool follow = false;
  bool json = false;
  bool timeline = false;
};
int log(const LogRequest& request);

struct StatsRequest {
  RawValues flags;
  std::string pattern;  // of groups; empty: all
  bool json = false;
  bool prometheus = false;
};
int stats(const StatsRequest& request);

// A live screen, or one picture of it.
struct WatchRequest {
  RawValues flags;
  std::string pattern;
  Duration interval = std::chrono::seconds(1);  // between two looks at the store
  WatchSort sort = WatchSort::name;
  bool once = false;
};
int watch(const WatchRequest& request);

struct ForceReleaseRequest {
  RawValues flags;
  std::string name;
  std::optional<std::string> key;
  std::optional<std::string> id;
  std::string reason;
  bool yes = false;
  bool now = false;
  bool stale = false;
};
int force_release(const ForceReleaseRequest& request);

// For shell scripts: prints what the shell has to evaluate, also on failure.
struct AcquireRequest {
  RawValues flags;
  std::string name;
  std::optional<std::string> key;
  Mode mode = Mode::exclusive;
  std::size_t slots = 0;                // of Mode::slots
  std::optional<pid_t> pid;             // whom the hold is for; nullopt: the calling shell
  bool keeper = true;                   // false: a lease that nobody renews
  std::optional<Duration> maintenance;  // --for: such a lease of this length, for no process at all
  Shell shell = Shell::posix;
};
int acquire(const AcquireRequest& request);

// What a script does with a hold that it has the token of.
struct HoldingRequest {
  RawValues flags;
  std::string name;
  std::optional<std::string> key;
  std::optional<std::string> token;       // nullopt: from
  std::optional<std::string> token_file;  // this file's first line; nullopt: KLOCK_TOKEN
  Duration left{};                        // of check
};
int renew(const HoldingRequest& request);
int check(const HoldingRequest& request);
int release(const HoldingRequest& request);

struct WaitRequest {
  RawValues flags;
  std::string name;
  std::optional<std::string> key;
};
int wait_until_free(const WaitRequest& request);

// Whether locks are safe in the store.
struct DoctorRequest {
  RawValues flags;
  bool json = false;
};
int doctor(const DoctorRequest& request);

}  // namespace klock
