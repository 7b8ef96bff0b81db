// SPDX-License-Identifier: MIT
#include "cli/options.hpp"

#include <algorithm>
#include <array>

namespace klock {
namespace {

constexpr bool k_setting = true;

constexpr Option k_waiting_options[] = {
    {"nonblock", 'n', "", "do not wait when it is busy"},
    {"wait", 'w', "D", "wait at most D (default: for ever; 0: as -n)", k_setting},
    {"max-waiters", 0, "N", "give up at once if N are waiting already", k_setting},
    {"conflict-exit-code", 'E', "N", "exit status when busy, 0-255 (default 75)", k_setting}};

constexpr Option k_lock_options[] = {{"exclusive", 'x', "", "one holder at a time (the default)"},
                                     {"shared", 's', "", "together with others that are shared"},
                                     {"slots", 0, "N", "together with others, but at most N at once"},
                                     {"also", 0, "NAME", "hold this lock too (may be repeated)"}};

constexpr Option k_once_options[] = {
    {"once", 0, "KEY", "skip if KEY was completed; else complete it"},
    {"once-ttl", 0, "D", "how long the mark is kept (default 30d)", k_setting},
    {"unless", 0, "'CHECK'", "under the lock run CHECK in the shell; if 0: skip"},
    {"skip-exit-code", 0, "N", "exit status when skipped, 0-255 (default 0)", k_setting}};

constexpr Option k_lease_options[] = {
    {"ttl", 0, "D", "lease, renewed every third of it (default 15s)", k_setting},
    {"min-hold", 0, "D", "keep the name taken for at least D", k_setting},
    {"on-lost", 0, "stop|warn", "when the lease is lost (default stop)", k_setting},
    {"on-gone", 0, "lost|reclaim", "when the record vanished (default lost)", k_setting}};

constexpr Option k_safety_options[] = {
    {"wait-replicas", 0, "N", "held only once N replicas of the server have it", k_setting},
    {"if-unavailable", 0, "HOW", "fail, wait, local or run when out of reach (fail)", k_setting}};

constexpr Option k_command_options[] = {
    {"", 'c', "STRING", "run STRING with $SHELL -c, else /bin/sh -c"},
    {"max-hold", 0, "D", "stop the command after D (status 124)", k_setting},
    {"tree", 0, "", "every descendant counts: wait for all, stop all", k_setting},
    {"kill-after", 'k', "D", "from SIGTERM to SIGKILL (default 5s, or ttl/3)", k_setting},
    {"signal", 0, "SIG", "sent instead of SIGTERM", k_setting}};

constexpr Option k_report_options[] = {
    {"message", 'm', "TEXT", "shown to everyone who looks at the lock", k_setting},
    {"outcome-file", 0, "FILE", "write what happened to FILE as JSON", k_setting},
    {"record-command", 0, "name|full", "what the log tells of it (default name)", k_setting},
    {"group", 0, "GROUP", "count it for GROUP (default: NAME up to a colon)", k_setting}};

constexpr Option k_keeper_options[] = {
    {"ttl", 0, "D", "lease, renewed every third of it (default 15s)", k_setting},
    {"on-lost", 0, "stop|warn", "signal the shell when the lease is lost, or not", k_setting},
    {"signal", 0, "SIG", "sent to it instead of SIGTERM", k_setting},
    {"pid", 0, "P", "for process P, not for the calling shell"},
    {"no-keeper", 0, "", "a lease that nobody renews"},
    {"for", 0, "D", "such a lease of D, for maintenance"}};

constexpr Option k_acquire_output_options[] = {
    {"message", 'm', "TEXT", "shown to everyone who looks at the lock", k_setting},
    {"group", 0, "GROUP", "count it for GROUP (default: NAME up to a colon)", k_setting},
    {"shell", 0, "sh|fish", "what to print for (default sh: bash, zsh, ksh too)"}};

constexpr Option k_token_options[] = {{"token", 0, "TOKEN", "the hold's token (default: KLOCK_TOKEN)"},
                                      {"token-file", 0, "FILE", "read it from the first line of FILE"}};

constexpr Option k_renew_options[] = {{"ttl", 0, "D", "extend the lease to D (default 15s)", k_setting}};

constexpr Option k_doctor_options[] = {
    {"ttl", 0, "D", "the lease that is meant to be safe (default 15s)", k_setting}};

constexpr Option k_log_options[] = {{"since", 0, "D", "only what happened in the last D"},
                                    {"follow", 'f', "", "go on with what happens from now on"},
                                    {"timeline", 0, "", "a chart of who held and who waited when"}};

constexpr Option k_stats_options[] = {{"prometheus", 0, "", "the text format of Prometheus"}};

constexpr Option k_check_options[] = {{"left", 0, "D", "the lease must last D more (default 0)"}};

constexpr Option k_wait_options[] = {
    {"wait", 'w', "D", "wait at most D (default: for ever)", k_setting},
    {"conflict-exit-code", 'E', "N", "exit status if it is busy still (default 75)", k_setting}};

constexpr Option k_store_options[] = {
    {"url", 0, "URL", "local:[/dir], redis[s]:, unix:, redis-cluster:..", k_setting},
    {"prefix", 0, "TEXT", "before each name in the store (default klock:)", k_setting},
    {"key", 0, "KEY", "exactly KEY in the store, not prefix and NAME"},
    {"sentinel-user", 0, "USER", "how to log in to the Sentinels", k_setting},
    {"tls-ca", 0, "FILE|DIR", "trust these authorities, not the system's", k_setting},
    {"tls-cert", 0, "FILE", "our certificate, for a server that wants one", k_setting},
    {"tls-key", 0, "FILE", "its key", k_setting},
    {"tls-server-name", 0, "NAME", "in the server's certificate, not its host", k_setting},
    {"store-timeout", 0, "D", "a store silent for D is unreachable (default 5s)", k_setting},
    {"audit-file", 0, "FILE", "append events to FILE (or a syslog socket)", k_setting},
    {"config", 0, "FILE", "read FILE instead of klock.toml", k_setting}};

constexpr Option k_general_options[] = {{"quiet", 'q', "", "no messages but usage errors"},
                                        {"verbose", 'v', "", "say what happens and why"},
                                        {"json", 0, "", "JSON output (status, list, log, stats and others)"},
                                        {"help", 'h', "", "show this help"},
                                        {"version", 0, "", "show the version"}};

constexpr Option k_list_options[] = {{"older-than", 0, "D", "only what has been held for at least D"},
                                     {"names", 0, "", "only the names, one a line"}};

constexpr Option k_watch_options[] = {{"interval", 0, "D", "look again every D (default 1s, at least 100ms)"},
                                      {"once", 0, "", "print the locks once, as plain text"},
                                      {"sort", 0, "BY", "name (default), age, left or waiters"}};

constexpr Option k_force_options[] = {
    {"id", 0, "ID", "only if the hold has this id (see klock status)"},
    {"reason", 0, "TEXT", "told to the holder"},
    {"yes", 'y', "", "do not ask"},
    {"now", 0, "", "remove the record at once: commands may overlap"},
    {"stale", 0, "", "remove it only if its holder is provably dead"},
    {"wait", 'w', "D", "time for the holder to stop (default 30s)", k_setting}};

constexpr OptionGroup k_store_group{"Store", k_store_options};
constexpr OptionGroup k_general_group{"General", k_general_options};
constexpr OptionGroup k_common_groups[] = {k_store_group, k_general_group};
constexpr OptionGroup k_run_groups[] = {{"Lock", k_lock_options},
                                        {"Waiting", k_waiting_options},
                                        {"Once-only work", k_once_options},
                                        {"Lease", k_lease_options},
                                        {"Command", k_command_options},
                                        {"Reporting", k_report_options},
                                        {"Safety of the store", k_safety_options},
                                        k_store_group,
                                        k_general_group};
// All of them but --also: a shell has one keeper for each lock.
constexpr OptionGroup k_acquire_groups[] = {{"Lock", std::span(k_lock_options).first(3)},
                                            {"Waiting", k_waiting_options},
                                            {"Lease", k_keeper_options},
                                            {"Output", k_acquire_output_options},
                                            {"Safety of the store", k_safety_options},
                                            k_store_group,
                                            k_general_group};
constexpr OptionGroup k_token_group{"Hold", k_token_options};
constexpr OptionGroup k_renew_groups[] = {
    {"Lease", k_renew_options}, k_token_group, k_store_group, k_general_group};
constexpr OptionGroup k_doctor_groups[] = {{"Lease", k_doctor_options}, k_store_group, k_general_group};
constexpr OptionGroup k_check_groups[] = {
    {"Lease", k_check_options}, k_token_group, k_store_group, k_general_group};
constexpr OptionGroup k_release_groups[] = {k_token_group, k_store_group, k_general_group};
constexpr OptionGroup k_wait_groups[] = {{"Waiting", k_wait_options}, k_store_group, k_general_group};
constexpr OptionGroup k_log_groups[] = {{"Output", k_log_options}, k_store_group, k_general_group};
constexpr OptionGroup k_stats_groups[] = {{"Output", k_stats_options}, k_store_group, k_general_group};
constexpr OptionGroup k_watch_groups[] = {{"Output", k_watch_options}, k_store_group, k_general_group};
constexpr OptionGroup k_list_groups[] = {{"Listing", k_list_options}, k_store_group, k_general_group};
constexpr OptionGroup k_force_groups[] = {{"Removing", k_force_options}, k_store_group, k_general_group};
constexpr OptionGroup k_general_groups[] = {k_general_group};

constexpr std::string_view k_main_notes =
    R"(The store is what --url, KLOCK_URL or klock.toml (in ~/.config/klock or
/etc/klock) says, else local:, this host's own.
'klock COMMAND --help' tells more, and so does klock(1).
)";

constexpr std::string_view k_run_notes =
    R"(NAME is the first word that is not an option. The first other word after it,
or everything after the first --, is the command, passed on as it is.
D: 500ms, 15s, 2m, 1.5h, 1d; a bare number is seconds.

Exit status:
  N         the command's own status; 128+S if it died of signal S
  64        usage
  69        store unreachable
  70, 71    internal error, operating system error
  75        busy: not acquired in the time given (-E changes it)
  77, 78    store refused us, configuration wrong
  79        the lease was lost or forced while the command ran
  124       --max-hold reached
  126, 127  command not executable, not found
  128+S     interrupted by signal S while waiting

Environment:
  KLOCK_URL, KLOCK_PREFIX, KLOCK_TTL, KLOCK_CONFIG  as the options of that name
  KLOCK_TLS_CA, KLOCK_TLS_CERT, KLOCK_TLS_KEY, KLOCK_TLS_SERVER_NAME   likewise
  KLOCK_PASSWORD_FILE, REDISCLI_AUTH                the store's password
  KLOCK_NAME, KLOCK_TOKEN, KLOCK_FENCE, KLOCK_MODE  given to the command
  KLOCK_HELD                                        likewise, for nested runs
)";

constexpr std::string_view k_acquire_notes =
    R"=(In a script:
  eval "$(klock acquire NAME)" || exit
In fish:
  klock acquire --shell fish NAME | source; or exit
It prints assignments of KLOCK_NAME, KLOCK_TOKEN, KLOCK_FENCE, KLOCK_MODE and
KLOCK_HELD, and if it fails a command that has its exit status. A small process
keeps the lock until the shell ends or klock release NAME.

Exit status:
  0         acquired
  64        usage
  69        store unreachable
  70, 71    internal error, operating system error
  75        busy: not acquired in the time given (-E changes it)
  77, 78    store refused us, configuration wrong
  128+S     interrupted by signal S while waiting
)=";

constexpr std::string_view k_holding_notes =
    R"(The token is --token, else in --token-file, else KLOCK_TOKEN, as klock acquire
sets it. Other users can see what is given to --token.

Exit status:
  0         yes, done
  1         the lock is not held with this token (any more)
  64        usage, no token
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_wait_notes =
    R"(It does not take the lock: somebody else may have it a moment later.

Exit status:
  0         it is free
  64        usage
  69        store unreachable
  75        not free in the time given (-E changes it)
  77, 78    store refused us, configuration wrong
  128+S     interrupted by signal S
)";

constexpr std::string_view k_status_notes = R"(Without NAME: every lock that klock list shows.

Exit status:
  0         at least one of them is held
  1         none is
  64        usage
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_list_notes = R"(PATTERN is a shell pattern such as 'backup:*'; without it: all.
--older-than leaves out what is of unknown age, such as holds of other programs.

Exit status:
  0         done, also when there is nothing to show
  64        usage
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_watch_notes =
    R"(PATTERN is a shell pattern such as 'backup:*'; without it: all.

Keys:
  q, Esc        leave (so does Ctrl-C)
  n, a, l, w    sort by name, age, time left, number of waiters
  r             reverse the order
  /             show only what has a text in it: Enter keeps it, Esc drops it
  j, k, arrows, page up and down, home, end: scroll

Exit status:
  0         left by a key, or printed once
  64        usage; no terminal and no --once
  69        store unreachable at the first look
  77, 78    store refused us, configuration wrong
  128+S     ended by signal S (130: Ctrl-C)
)";

constexpr std::string_view k_once_notes =
    R"(KEY is that of 'klock run --once KEY NAME'. show prints who completed it and
when; clear removes the mark, so that the work is done again.

Exit status:
  0         shown, or removed
  1         there is no such mark
  64        usage
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_doctor_notes =
    R"(Prints a line for each thing it looks at: OK, UNKNOWN (the store does not tell),
WARNING or DANGER, what it is, why that matters and what to do. Changes nothing.

Exit status:
  0         nothing to worry about
  1         warnings
  2         dangers: locks do not work, or two may hold one
  64        usage
  69        store unreachable
  77, 78    store refused the login, configuration wrong
)";

constexpr std::string_view k_log_notes =
    R"(NAME may be a shell pattern such as 'backup:*'; without it: all. One line an
event, oldest first; with --json one JSON object a line. Events: waiting,
acquired, timed_out, gave_up, skipped, renewed_late, reclaimed, released,
forced, lost, expired, degraded, reconnected. The log is bounded: old events
are gone.

Exit status:
  0         done, also when there is nothing to show
  64        usage
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_stats_notes =
    R"(GROUP may be a shell pattern; without it: all. A group is what stands before the
first colon of a name, or what --group says. Shows how often locks were taken,
found busy, lost and so on, how long they were waited for and held, and advice.

Exit status:
  0         done, also when there is nothing to show
  64        usage
  69        store unreachable
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_force_notes =
    R"(Shows who holds NAME, asks that klock to stop its command and to release, and
waits for it, so that nothing overlaps. Needs --yes where there is no terminal.
Of several holders it ends all, or the one with --id.

Exit status:
  0         done
  1         nobody holds it, or it was refused
  64        usage
  69        store unreachable
  75        no answer from the holder within -w
  77, 78    store refused us, configuration wrong
)";

constexpr std::string_view k_completion_notes = R"(For example, in ~/.bashrc: source <(klock completion bash)
)";

constexpr Syntax k_main{"",
                        "COMMAND ...",
                        "Runs commands under named locks that hold across machines.",
                        k_common_groups,
                        Words::subcommand,
                        k_main_notes};

constexpr Syntax k_subcommands[] = {
    {"run", "[OPTIONS] NAME [--] COMMAND [ARG...]\n       klock run [OPTIONS] NAME -c 'SHELL COMMAND'",
     "run a command while holding a lock", k_run_groups, Words::name_and_command, k_run_notes},
    {"acquire", "[OPTIONS] NAME", "take a lock for a shell script", k_acquire_groups, Words::operands,
     k_acquire_notes},
    {"renew", "[OPTIONS] NAME", "extend the lease of a hold", k_renew_groups, Words::operands,
     k_holding_notes},
    {"check", "[OPTIONS] NAME", "whether a hold still stands", k_check_groups, Words::operands,
     k_holding_notes},
    {"release", "[OPTIONS] NAME", "end a hold", k_release_groups, Words::operands, k_holding_notes},
    {"wait", "[OPTIONS] NAME", "wait until a lock is free", k_wait_groups, Words::operands, k_wait_notes},
    {"status", "[OPTIONS] [NAME...]", "show who holds a lock and who waits", k_common_groups, Words::operands,
     k_status_notes},
    {"list", "[OPTIONS] [PATTERN]", "list the locks that are held or waited for", k_list_groups,
     Words::operands, k_list_notes},
    {"watch", "[OPTIONS] [PATTERN]", "show the locks on a live screen", k_watch_groups, Words::operands,
     k_watch_notes},
    {"force-release", "[OPTIONS] NAME", "end somebody else's hold", k_force_groups, Words::operands,
     k_force_notes},
    {"log", "[OPTIONS] [NAME]", "show what happened to locks", k_log_groups, Words::operands, k_log_notes},
    {"stats", "[OPTIONS] [GROUP]", "show how locks are used, with advice", k_stats_groups, Words::operands,
     k_stats_notes},
    {"once", "[OPTIONS] show|clear NAME KEY", "show or clear the mark of once-only work", k_common_groups,
     Words::operands, k_once_notes},
    {"doctor", "[OPTIONS]", "look for what makes locks unsafe in the store", k_doctor_groups, Words::operands,
     k_doctor_notes},
    {"completion", "bash|zsh|fish", "print a shell's completion script", k_general_groups, Words::operands,
     k_completion_notes}};

template <class Predicate>
const Option* find_if_option(const Syntax& syntax, Predicate matches) {
  for (const OptionGroup& group : syntax.groups)
    for (const Option& option : group.options)
      if (matches(option)) return &option;
  return nullptr;
}

}  // namespace

std::span<const Syntax> subcommands() {
  return k_subcommands;
}

const Syntax* find_syntax(std::string_view command) {
  if (command.empty()) return &k_main;
  const auto* const found = std::find_if(std::begin(k_subcommands), std::end(k_subcommands),
                                         [=](const Syntax& syntax) { return syntax.command == command; });
  return found == std::end(k_subcommands) ? nullptr : found;
}

const Option* find_option(const Syntax& syntax, std::string_view name) {
  return find_if_option(syntax, [=](const Option& option) { return !name.empty() && option.name == name; });
}

const Option* find_option(const Syntax& syntax, char letter) {
  return find_if_option(syntax, [=](const Option& option) { return letter != 0 && option.letter == letter; });
}

}  // namespace klock
