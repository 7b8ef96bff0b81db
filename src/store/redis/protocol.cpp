// SPDX-License-Identifier: MIT
#include "store/redis/protocol.hpp"

#include <hiredis/hiredis.h>

#include <new>

namespace klock::redis {
namespace {

struct Meaning {
  std::string_view prefix;  // of the error reply
  Cause cause;
  ErrorKind kind;
  const char* what;
  const char* hint;
  bool quote;  // add the server's words
};

constexpr const char* k_login_hint =
    "give a user and password in the URL, KLOCK_PASSWORD_FILE or REDISCLI_AUTH";
constexpr const char* k_acl_hint =
    "klock doctor tells which are missing; see Rights in Redis in klock-stores(7)";

// What follows says as much as after NOPERM. (Redis since 7.2, and Valkey.)
constexpr std::string_view k_forbidden_in_script = "ERR ACL failure in script: ";

constexpr Meaning k_meanings[] = {
    {"NOSCRIPT", Cause::no_script, ErrorKind::protocol, "the server does not know our script", "", false},
    {"NOAUTH", Cause::final, ErrorKind::refused, "the server wants a login", k_login_hint, false},
    {"ERR Protocol error: unauthenticated", Cause::final, ErrorKind::refused, "the server wants a login",
     k_login_hint, false},
    {"WRONGPASS", Cause::final, ErrorKind::refused, "the server did not accept the login", k_login_hint,
     false},
    {"ERR invalid password", Cause::final, ErrorKind::refused, "the server did not accept the login",
     k_login_hint, false},
    {"ERR AUTH", Cause::final, ErrorKind::refused, "the server has no password but we were given one",
     "take it out of the configuration", false},
    {"ERR Client sent AUTH", Cause::final, ErrorKind::refused,
     "the server has no password but we were given one", "take it out of the configuration", false},
    {"NOPERM", Cause::no_permission, ErrorKind::refused, "the server forbids it", k_acl_hint, true},
    {"ERR The user executing the script", Cause::no_permission, ErrorKind::refused, "the server forbids it",
     k_acl_hint, true},
    {k_forbidden_in_script, Cause::no_permission, ErrorKind::refused, "the server forbids it", k_acl_hint,
     true},
    {"WRONGTYPE", Cause::final, ErrorKind::refused, "one of the lock's keys is in use for something else",
     "choose another name or --prefix", true},
    {"CROSSSLOT", Cause::final, ErrorKind::refused, "the lock's keys lie in different slots",
     "a Redis Cluster wants redis-cluster://, and keys where '}' only ends a hash tag", true},
    {"DENIED", Cause::final, ErrorKind::refused,
     "the server is in protected mode and accepts only local clients",
     "set a password there, or connect from its own host", false},
    {"MOVED", Cause::moved, ErrorKind::config, "the server is part of a Redis Cluster",
     "use redis-cluster:// with some of its hosts", false},
    {"ASK", Cause::ask, ErrorKind::config, "the server is part of a Redis Cluster",
     "use redis-cluster:// with some of its hosts", false},
    {"ERR invalid DB index", Cause::final, ErrorKind::config, "the server has no such database",
     "check the number in the URL", false},
    {"ERR DB index is out of range", Cause::final, ErrorKind::config, "the server has no such database",
     "check the number in the URL", false},
    {"ERR This instance has cluster support disabled", Cause::final, ErrorKind::config,
     "it is no Redis Cluster", "use redis:// with it", false},
    {"ERR SELECT is not allowed in cluster mode", Cause::final, ErrorKind::config,
     "a Redis Cluster has only database 0", "check the number in the URL", false},
    {"LOADING", Cause::later, ErrorKind::unreachable, "the server is still loading its data",
     "try again later", false},
    {"BUSY ", Cause::later, ErrorKind::not_ready, "the server is busy with somebody's script",
     "try again later", false},
    {"MASTERDOWN", Cause::later, ErrorKind::not_ready, "the server has lost its master", "", false},
    {"TRYAGAIN", Cause::split, ErrorKind::not_ready, "the lock's slot is being moved to another server",
     "try again later", false},
    {"CLUSTERDOWN", Cause::not_master, ErrorKind::not_ready, "the Cluster is down, or this part of it",
     "redis-cli --cluster check tells which servers are missing", false},
    {"OOM", Cause::final, ErrorKind::not_ready, "the server is out of memory",
     "raise maxmemory or make room there", false},
    {"MISCONF", Cause::final, ErrorKind::not_ready, "the server cannot save its data and refuses to write",
     "look at its log and disk", false},
    {"READONLY", Cause::not_master, ErrorKind::not_ready, "the server is a read-only replica",
     "give the master's address", false},
    {"NOREPLICAS", Cause::final, ErrorKind::not_ready, "the server misses its replicas and refuses to write",
     "bring them back, or lower min-replicas-to-write there", false},
    {"ERR max number of clients", Cause::final, ErrorKind::not_ready, "the server has too many clients",
     "raise maxclients there", false},
    {"ERR Unknown Redis command called from", Cause::final, ErrorKind::refused,
     "the server does not know a command that klock needs", "klock doctor tells which", false},
    {"ERR unknown command", Cause::final, ErrorKind::refused,
     "the server does not know a command that klock needs", "klock needs Redis or Valkey 5.0 or later", true},
};

// Redis before 7.0 wraps the error of a command in a script into "ERR Error running script (...): ...: -OOM
// ...", and every one what keeps a transaction from its end.
std::string_view unwrap(std::string_view error) {
  constexpr std::string_view k_discarded = "EXECABORT Transaction discarded because of: ";
  if (error.starts_with(k_discarded)) return error.substr(k_discarded.size());
  if (!error.starts_with("ERR Error running script")) return error;
  const auto dash = error.rfind(": -");
  return dash == std::string_view::npos ? error : error.substr(dash + 3);
}

// Without the words of ours that Redis repeats after an unknown command, and without the place in our script.
std::string quoted(std::string_view error) {
  if (error.starts_with(k_forbidden_in_script)) error.remove_prefix(k_forbidden_in_script.size());
  std::size_t end = 200;
  for (const std::string_view noise : {", with args", " script: ", " in script."})
    end = std::min(end, error.find(noise));
  return std::string(error.substr(0, end));
}

}  // namespace

tl::unexpected<Fault> interrupted_fault() {
  return fault(Cause::interrupted, ErrorKind::unreachable, "interrupted");
}

tl::unexpected<Fault> timeout_fault() {
  return fault(Cause::timeout, ErrorKind::unreachable, "the server did not answer in time",
               "is it stopped, overloaded, or behind a firewall?");
}

tl::unexpected<Fault> closed_fault() {
  return fault(Cause::closed, ErrorKind::unreachable, "the server closed the connection",
               "is it restarting?");
}

Fault fault_of(std::string_view error_reply) {
  const std::string_view error = unwrap(error_reply);
  for (const Meaning& meaning : k_meanings) {
    if (!error.starts_with(meaning.prefix)) continue;
    std::string what = meaning.what;
    if (meaning.quote) what += ": " + quoted(error);
    Fault fault{meaning.cause, Error{meaning.kind, std::move(what), meaning.hint}};
    if (forbids(error, "eval")) {
      const bool by_rights = error.starts_with("NOPERM");
      fault.cause = Cause::no_scripting;
      fault.error.what = by_rights ? "this user may not run scripts" : "the server has no scripts";
      fault.error.hint = by_rights ? "ACL SETUSER USER +eval +evalsha" : "";
    }
    if (fault.cause == Cause::moved || fault.cause == Cause::ask)
      fault.server = error.substr(error.rfind(' ') + 1);
    return fault;
  }
  return {Cause::final, Error{ErrorKind::protocol, "the server answered: " + quoted(error), ""}};
}

bool forbids(std::string_view error_reply) {
  const std::string_view error = unwrap(error_reply);
  return error.starts_with("NOPERM") || error.starts_with("ERR unknown command");
}

bool is_of_command(const Fault& fault) {
  return fault.cause == Cause::no_permission && fault.error.what.find(" to run the '") != std::string::npos;
}

// "... to run the 'evalsha' command", "unknown command `EVAL`, with args ...": of what follows some is ours.
bool forbids(std::string_view error_reply, std::string_view command) {
  if (!forbids(error_reply)) return false;
  std::string words(error_reply.substr(0, error_reply.find(',')));
  for (char& c : words)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const std::string name(command);
  return words.find("'" + name) != std::string::npos || words.find("`" + name) != std::string::npos;
}

Fault login_fault_of(std::string_view error_reply) {
  for (const Meaning& meaning : k_meanings)
    if (error_reply.starts_with(meaning.prefix) && !meaning.quote)
      return {meaning.cause, Error{meaning.kind, meaning.what, meaning.hint}};
  return {Cause::final, Error{ErrorKind::refused, "the server did not accept the login", k_login_hint}};
}

void Pipeline::append(const std::string_view* words, std::size_t count) {
  std::vector<const char*> texts(count);
  std::vector<std::size_t> sizes(count);
  for (std::size_t i = 0; i < count; ++i) {
    texts[i] = words[i].data() != nullptr ? words[i].data() : "";
    sizes[i] = words[i].size();
  }
  char* command = nullptr;
  const auto size = redisFormatCommandArgv(&command, static_cast<int>(count), texts.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  bytes_.append(command, static_cast<std::size_t>(size));
  redisFreeCommand(command);
  ++count_;
}

}  // namespace klock::redis
