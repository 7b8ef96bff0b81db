// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/reply.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"

#include <memory>
#include <string>

namespace klock::redis {

// What is said at first: nothing more than who we are; that it has to be a master, before anything else it
// answers counts; that the first request is for a slot which it is being given (ASKING).
enum class Login { plain, master, asking };

// "host:port", for messages.
std::string describe_endpoint(const RedisUrl& url);

// A stream of commands and replies to one server. It logs in (AUTH, SELECT, CLIENT SETNAME), and asks for
// the role where that matters, together with the first write. Every call returns by its deadline and at once
// when interrupted. After a fault other than a timeout of a read that owed no reply, its owner drops it: what
// arrives later belongs to nobody.
class Connection {
 public:
  // Faults: those of dial(). A server that is no master shows as a fault (later) in read().
  static Io<std::unique_ptr<Connection>> open(const RedisUrl& url, Login login, Instant deadline,
                                              Interrupt interrupt);

  Io<void> write(const Pipeline& commands, Instant deadline, Interrupt interrupt);

  // From now on the answers to the login are replies like any other.
  void forget_login() { login_owed_.clear(); }

  // The next reply, which may be an error reply. Faults: interrupted, timeout, closed; login; protocol.
  Io<Reply> read(Instant deadline, Interrupt interrupt);

 private:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}
  Io<void> await(short events, Instant deadline, Interrupt interrupt);
  Io<void> send_all(const std::string& bytes, Instant deadline, Interrupt interrupt);
  Io<Reply> read_reply(Instant deadline, Interrupt interrupt);
  Io<void> read_login(Instant deadline, Interrupt interrupt);

  Fd socket_;
  ReplyReader reader_;
  std::string login_;       // still to be written
  std::string login_owed_;  // a letter for each login command whose reply is to come
};

}  // namespace klock::redis
