// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/route.hpp"
#include "store/redis/script.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

class NoteKeeper;

// A script with what it works on. The views must stay valid until the call has returned.
struct ScriptCall {
  const Script& script;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> common_keys;  // of index, log and statistics, which come last (LockKeys)
  std::vector<std::string_view> arguments;
  // Subscribe to the client's channel in the same transaction: nothing published after the script has run is
  // missed.
  bool subscribe = false;
  bool patient = true;  // false: Cause::split is final
};

// Runs scripts over a connection of its own, opened when needed, and listens on one channel in between. Knows
// which of the server's abilities (script cache, pub/sub, the keys of log and index) are to be had and does
// without those that are not. Every call returns by its deadline, and at once when interrupted; on a Cluster
// the notes for index, log and statistics, which go to another server, may take 300 ms more in both cases.
// One thread at a time.
class Client {
 public:
  // `key`: one of those that it works on, see make_route().
  Client(const Site& site, std::string_view key, std::string channel = {});
  ~Client();

  // Sends without waiting for the answer; the next call() must be for the same script, and then reads it.
  void begin(const ScriptCall& call, Instant deadline, Interrupt interrupt);

  // The script's answer. A connection that breaks is replaced once, or, where another server may be in charge
  // by then (Route), again and again until the deadline, and the script sent again (see sent_again());
  // LOADING and the like are waited out until the deadline. Faults are final for this call; the next one
  // starts over a new connection.
  Io<Reply> call(const ScriptCall& call, Instant deadline, Interrupt interrupt);

  // Like call(), but the script runs after everything sent before, even when a reply is still owed (an
  // interrupted call may yet have its effect, which must not come after the release).
  Io<Reply> call_in_order(const ScriptCall& call, Instant deadline, Interrupt interrupt);

  // Plain commands in one write; answers in order, an error reply as it is. Patient like call().
  Io<std::vector<Reply>> commands(const Pipeline& commands, Instant deadline, Interrupt interrupt);
  // One of them, where an error reply is a fault.
  Io<Reply> command(const std::vector<std::string_view>& words, Instant deadline, Interrupt interrupt);

  // Without scripts: asks `look` under a WATCH of these keys, and executes what `act` makes of the answers in
  // a transaction, all over again when one of the keys has changed meanwhile. The answers of the transaction;
  // none where `act` has nothing to write. Patient like call(); `in_order` as in call_in_order().
  using Act = std::function<Pipeline(const std::vector<Reply>& seen)>;
  Io<std::vector<Reply>> transact(const std::vector<std::string_view>& watched, const Pipeline& look,
                                  const Act& act, bool in_order, Instant deadline, Interrupt interrupt);

  // How many replicas have what was written over this connection, after `limit` at most, or once it is
  // `count` (WAIT). Ends listening.
  Io<std::int64_t> await_replicas(std::size_t count, std::chrono::milliseconds limit, Instant deadline,
                                  Interrupt interrupt);

  // Starts listening on an idle connection; the confirmation comes as a message "".
  Io<void> subscribe(Instant deadline, Interrupt interrupt);

  // The next message for us; timeout without harm. A refused subscription ends as Cause::no_permission, after
  // which can_listen() is false and the connection is good.
  Io<std::string> next_message(Instant until, Interrupt interrupt);

  // When the request that was answered last was sent.
  Instant sent_at() const { return sent_at_; }
  // The answer is that of a repetition: what was sent before may have had its effect.
  bool sent_again() const { return sent_again_; }
  bool connected() const { return connection_ != nullptr && !reply_owed_; }
  bool subscribed() const { return subscribed_; }
  bool can_listen() const { return can_listen_; }
  // Why scripts are not to be had; nullopt: as far as is known they are.
  const std::optional<Error>& no_scripts() const { return no_scripts_; }
  // Whether the keys of the prefix lie elsewhere than the lock's.
  bool splits_keys() const { return route_->splits_keys(); }
  // Another server may come to be in charge: what is heard of this one is not all there is to hear.
  bool may_change() const { return route_->may_change(); }
  // A subscription stands or has been asked for.
  bool listening() const { return connection_ != nullptr && (subscribed_ || subscribing_); }
  // Forgets what begin() sent.
  void drop_begun();

 private:
  Io<Reply> exchange(const ScriptCall& call, Instant deadline, Interrupt interrupt);
  Io<void> send(const ScriptCall& call, Instant deadline, Interrupt interrupt);
  Io<void> write_whole(const Pipeline& out, Instant deadline, Interrupt interrupt);
  Io<Reply> receive(const ScriptCall& call, Instant deadline, Interrupt interrupt);
  Io<Reply> receive_transaction(const ScriptCall& call, Instant deadline, Interrupt interrupt);
  Io<Reply> receive_after(const std::string& mark, const ScriptCall& call, Instant deadline,
                          Interrupt interrupt);
  Io<std::vector<Reply>> exchange(const Pipeline& commands, Instant deadline, Interrupt interrupt);
  Io<std::vector<Reply>> ask_here(const Pipeline& commands, Instant deadline, Interrupt interrupt);
  Io<void> skip_to(const std::string& mark, Instant deadline, Interrupt interrupt);
  Io<void> finish_owed(Instant deadline, Interrupt interrupt);
  Io<void> ensure_connection(Instant deadline, Interrupt interrupt);
  Io<void> finish_unsubscribe(Instant deadline, Interrupt interrupt);
  bool in_transaction(const ScriptCall& call) const { return call.subscribe && can_listen_ && !plain_once_; }
  Io<Reply> answer_of(const ScriptCall& call, Reply&& reply);
  void add_script(Pipeline& out, const ScriptCall& call) const;
  bool adapt(const Fault& fault);
  void drop();
  bool redirect(Fault& fault, int& redirections);
  template <class Ask>
  auto patiently(const Ask& ask, bool wait_for_split, Instant deadline, Interrupt interrupt)
      -> decltype(ask(deadline));

  const Site site_;
  const std::unique_ptr<Route> route_;
  std::unique_ptr<NoteKeeper> note_keeper_;  // on a Cluster, once there is something to note
  const std::string channel_;
  std::unique_ptr<Connection> connection_;
  std::optional<Io<void>> begun_;
  Instant sent_at_{};
  bool reply_owed_ = false;  // something sent has not been answered
  int queued_ = 0;           // answers to a transaction that have come
  bool subscribed_ = false;
  bool subscribing_ = false;  // a plain SUBSCRIBE has not been answered
  bool leaving_ = false;      // the answer to UNSUBSCRIBE comes first
  bool sent_again_ = false;
  bool replaced_ = false;    // a broken connection has been replaced since the last answer
  bool with_text_ = false;   // EVAL instead of EVALSHA
  bool plain_once_ = false;  // without a transaction this time
  bool can_listen_ = true;
  std::optional<Error> no_scripts_;
  std::size_t left_out_ = 0;  // how many sorts of keys
};

}  // namespace klock::redis
