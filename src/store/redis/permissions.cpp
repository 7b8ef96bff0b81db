// SPDX-License-Identifier: MIT
#include "store/redis/permissions.hpp"

#include "store/redis/keys.hpp"
#include "store/redis/protocol.hpp"

#include <algorithm>
#include <array>

namespace klock::redis {
namespace {

// No script has this digest. The server checks the rights on the keys before it looks for the script.
constexpr const char* k_no_script = "0000000000000000000000000000000000000000";
constexpr std::size_t k_needs = static_cast<std::size_t>(Need::status) + 1;
constexpr const char* k_name = "NAME";  // of a lock, in what is shown

std::vector<std::string> names_of(const LockKeys& keys) {
  return {keys.key,      keys.holders, keys.waiters, keys.queue,  keys.fence,
          keys.requests, keys.readers, keys.slots,   keys.joined, keys.once_key("KEY")};
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void note(std::vector<std::string>& names, const std::string& name) {
  if (!has(names, name)) names.push_back(name);
}

struct Refusals {
  std::vector<std::string> commands;
  std::vector<std::string> keys;
  std::vector<std::string> channels;
  bool any() const { return !commands.empty() || !keys.empty() || !channels.empty(); }
  void add(const Refusals& others) {
    for (const std::string& command : others.commands) note(commands, command);
    for (const std::string& key : others.keys) note(keys, key);
    for (const std::string& channel : others.channels) note(channels, channel);
  }
};

// Redis and Valkey: "... no permissions to run the 'x' command", "... to access one of the keys ...", "... a
// key", "... channels ...".
enum class Refused : std::uint8_t { command, key, channel };
Refused refused_in(const std::string& answer) {
  const auto says = [&](const char* word) { return answer.find(word) != std::string::npos; };
  if (!answer.starts_with("NOPERM") || says("to run ")) return Refused::command;
  return says("channel") ? Refused::channel : says("key") ? Refused::key : Refused::command;
}

void note_refusal(Refusals& refusals, const Trial& trial, Refused what) {
  if (what == Refused::command)
    note(refusals.commands, trial.words[0]);
  else
    note(what == Refused::key ? refusals.keys : refusals.channels, trial.touches);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string describe(const Refusals& refusals) {
  std::string text = "this user may not";
  const char* between = " ";
  const auto add = [&](const char* doing, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += between + std::string(doing) + joined(names);
    between = ", nor ";
  };
  add("run ", refusals.commands);
  add("use the keys ", refusals.keys);
  add("use the channels ", refusals.channels);
  return text;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// "{klock:NAME}:holders" -> "{klock:*": the same for every name.
std::string pattern_of(const std::string& shown) {
  const auto at = shown.find(k_name);
  return at == std::string::npos ? shown : shown.substr(0, at) + "*";
}

std::string remedy_for(const Refusals& refusals) {
  std::vector<std::string> rights;
  for (const std::string& command : refusals.commands) note(rights, " +" + lower(command));
  for (const std::string& key : refusals.keys) note(rights, " ~" + pattern_of(key));
  for (const std::string& channel : refusals.channels) note(rights, " &" + pattern_of(channel));
  std::string text = "ACL SETUSER USER";
  for (const std::string& right : rights) text += right;
  return text;
}

struct Consequence {
  Need need;
  Severity severity;
  const char* subject;
  const char* text;
};

constexpr std::array<Consequence, 7> k_consequences{{
    {Need::lock, Severity::danger, "permissions", "no lock can be taken and kept"},
    {Need::scripts, Severity::warning, "scripts",
     "only exclusive locks, in no order, and not in klock log and klock stats"},
    {Need::plain, Severity::danger, "transactions", "without scripts no lock can be taken and kept"},
    {Need::channels, Severity::warning, "channels",
     "waiters are not woken but look again four times a second"},
    {Need::index, Severity::warning, "index", "klock list and the completions do not show this user's locks"},
    {Need::log, Severity::warning, "log", "klock log and klock stats do not show what this user does"},
    {Need::status, Severity::warning, "status",
     "klock status, klock list and klock log do not work for this user"},
}};

class Trials {
 public:
  Trials(const std::string& prefix, const std::string& name)
      : keys_(prefix + name, prefix), shown_(prefix + k_name, prefix) {}

  std::vector<Trial> all() && {
    try_keys();
    try_locks();
    try_what_tells();
    try_channels();
    return std::move(all_);
  }

 private:
  void add(Need need, const std::string& touches, std::vector<std::string> words) {
    const std::vector<std::string_view> common = shown_.common();
    const bool on_common = std::find(common.begin(), common.end(), touches) != common.end();
    all_.push_back({need, std::move(words), touches, on_common});
  }
  void try_keys();
  void try_locks();
  void try_what_tells();
  void try_channels();

  const LockKeys keys_;
  const LockKeys shown_;
  std::vector<Trial> all_;
};

void Trials::try_keys() {
  const std::vector<std::string> real_names = names_of(keys_);
  const std::vector<std::string> shown_names = names_of(shown_);
  for (std::size_t i = 0; i < real_names.size(); ++i)
    add(Need::lock, shown_names[i], {"EVALSHA", k_no_script, "1", real_names[i]});
  add(Need::scripts, "", {"EVAL", "return 1", "0"});
  for (std::size_t i = 0; i < real_names.size(); ++i)
    add(Need::lock, shown_names[i], {"PEXPIRE", real_names[i], "1"});
}

void Trials::try_locks() {
  add(Need::plain, shown_.key, {"WATCH", keys_.key});
  for (const char* command : {"MULTI", "EXEC"}) add(Need::plain, "", {command});
  add(Need::lock, "", {"TIME"});
  for (const char* command : {"TYPE", "GET", "PTTL", "DEL"})
    add(Need::lock, shown_.key, {command, keys_.key});
  add(Need::queue, shown_.key, {"EXISTS", keys_.key});
  add(Need::lock, shown_.key, {"SET", keys_.key, "doctor", "XX", "PX", "1"});  // XX: only if it exists
  add(Need::lock, shown_.holders, {"HGET", keys_.holders, "doctor"});
  add(Need::lock, shown_.holders, {"HDEL", keys_.holders, "doctor"});
  add(Need::lock, shown_.holders, {"HSET", keys_.holders, "doctor", "1", "doctor"});  // a value is missing
  add(Need::queue, shown_.queue, {"ZADD", keys_.queue, "XX", "1", "doctor"});
  add(Need::queue, shown_.queue, {"ZCARD", keys_.queue});
  add(Need::lock, shown_.queue, {"ZRANGE", keys_.queue, "0", "0"});
  for (const char* command : {"ZREVRANGE", "ZRANGEBYSCORE"})
    add(Need::queue, shown_.queue, {command, keys_.queue, "0", "0"});
  for (const char* command : {"ZRANK", "ZREM", "ZSCORE"})
    add(Need::queue, shown_.queue, {command, keys_.queue, "doctor"});
}

// Index, log and statistics, and whoever looks at them.
void Trials::try_what_tells() {
  add(Need::index, shown_.index, {"EVALSHA", k_no_script, "1", keys_.index});
  add(Need::index, shown_.index, {"ZSCORE", keys_.index, keys_.key});
  add(Need::index, shown_.queue, {"ZREMRANGEBYSCORE", keys_.queue, "0", "0"});

  add(Need::log, shown_.events, {"EVALSHA", k_no_script, "1", keys_.events});
  add(Need::log, shown_.events, {"XADD", keys_.events, "MAXLEN", "doctor", "*", "a", "b"});  // no number
  add(Need::log, shown_.groups, {"EVALSHA", k_no_script, "1", keys_.groups});
  add(Need::log, shown_.other_stats, {"EVALSHA", k_no_script, "1", keys_.other_stats});
  add(Need::log, shown_.other_stats, {"HINCRBY", keys_.other_stats, "doctor", "x"});  // likewise

  add(Need::status, shown_.key, {"GETRANGE", keys_.key, "0", "0"});
  add(Need::status, shown_.key, {"STRLEN", keys_.key});
  add(Need::status, shown_.holders, {"HGETALL", keys_.holders});
  add(Need::status, shown_.events, {"XRANGE", keys_.events, "0", "0"});
}

void Trials::try_channels() {
  const std::string channel = keys_.channel("doctor");
  const std::string any_channel = shown_.channel("*");
  add(Need::channels, any_channel, {"PUBLISH", channel, "doctor"});
  add(Need::channels, any_channel, {"PUBSUB", "NUMSUB", channel});
  add(Need::channels, "", {"UNSUBSCRIBE"});
  add(Need::channels, "", {"MULTI"});
  add(Need::channels, "", {"EXEC"});
  add(Need::channels, any_channel, {"SUBSCRIBE", channel});
}

Finding judge_writes(const Reply& reply) {
  if (!reply.is_error()) return {Severity::ok, "writes", "taken"};
  const Error error = fault_of(reply.text).error;
  return {Severity::danger, "writes", error.what, error.hint};
}

}  // namespace

std::vector<Trial> trials(const std::string& prefix, const std::string& name) {
  return Trials(prefix, name).all();
}

std::vector<Finding> judge_permissions(const std::vector<Trial>& trials, const std::vector<Reply>& replies) {
  std::array<Refusals, k_needs> refusals;
  std::vector<Finding> findings;
  const auto of = [&](Need need) -> Refusals& { return refusals.at(static_cast<std::size_t>(need)); };
  for (std::size_t i = 0; i < trials.size() && i < replies.size(); ++i) {
    const Trial& trial = trials[i];
    const Reply& reply = replies[i];
    // What locks themselves miss need not be said again.
    const Refusals& locks = of(Need::lock);
    const bool told =
        trial.need != Need::lock && (has(locks.commands, trial.words[0]) || has(locks.keys, trial.touches));
    if (reply.is_error() && forbids(reply.text)) {
      const Refused what = refused_in(reply.text);
      // Those that try a key by it too.
      const bool of_scripts = what == Refused::command && forbids(reply.text, "eval");
      if (!told) note_refusal(of(of_scripts ? Need::scripts : trial.need), trial, what);
    } else if (trial.words[0] == "SET") {
      findings.push_back(judge_writes(reply));
    } else if (trial.need == Need::index && reply.is_error() && reply.text.starts_with("WRONGTYPE")) {
      findings.push_back({Severity::warning, "index",
                          "the key " + trial.touches + " is in use for something else: klock list is blind",
                          "rename that key, or choose another --prefix"});
    }
  }
  // Either the scripts with all that they use, or transactions.
  const bool have_scripts = !of(Need::scripts).any();
  of(have_scripts ? Need::lock : Need::scripts).add(of(Need::queue));
  if (have_scripts) of(Need::plain) = {};
  if (!of(Need::lock).any() && !of(Need::plain).any())
    findings.push_back({Severity::ok, "permissions", "all that locks need"});
  for (const auto& [need, severity, subject, consequence] : k_consequences)
    if (of(need).any())
      findings.push_back({severity, subject, describe(of(need)) + ": " + consequence, remedy_for(of(need))});
  return findings;
}

}  // namespace klock::redis
