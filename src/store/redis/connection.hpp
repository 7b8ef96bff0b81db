// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/stream.hpp"
#include "util/clock.hpp"
#include "util/interrupt.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace klock::redis {

// What is said at first: who we are, and before anything else counts that is answered: nothing more; that it
// has to be a master; that it has to belong to a Cluster; and there that the first request is for a slot
// which it is being given (ASKING).
enum class Login { plain, master, member, asking };

// "host:port", for messages.
std::string describe_endpoint(const RedisUrl& url);
// Whether both name the same host and port.
bool is_same(const RedisUrl& a, const RedisUrl& b);
// A port as servers write it; nullopt: it is none.
std::optional<std::uint16_t> port_of(std::string_view text);
// When to turn to the next of several servers that know the same: 300 ms, 600 with TLS, whose handshake is a
// round trip or two more.
Instant silent_until(const RedisUrl& server, Instant deadline);

// A stream of commands and replies to one server. It logs in (AUTH, SELECT) before the first write, as a
// server that refuses goes on with what follows as another user, or in another database; with that write it
// tells our name, and asks for the role where that matters. Every call returns by its deadline and at once
// when interrupted. After a fault other than a timeout of a read that owed no reply, its owner drops it: what
// arrives later belongs to nobody.
class Connection {
 public:
  // Faults: those of dial(); of tls_context() and open_tls(), which the deadline covers too. A server that is
  // no master, or of no Cluster, shows as a fault (later, login) in read().
  static Io<std::unique_ptr<Connection>> open(const RedisUrl& url, Login login, Instant deadline,
                                              Interrupt interrupt);

  Io<void> write(const Pipeline& commands, Instant deadline, Interrupt interrupt);

  // From now on the answers to the login are replies like any other.
  void forget_login() { login_owed_.clear(); }

  // The next reply, which may be an error reply. Faults: those of Stream::read(); login; protocol.
  Io<Reply> read(Instant deadline, Interrupt interrupt);

 private:
  explicit Connection(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  Io<Reply> read_reply(Instant deadline, Interrupt interrupt);
  Io<void> read_login_step(Instant deadline, Interrupt interrupt);

  const std::unique_ptr<Stream> stream_;
  ReplyReader reader_;
  bool may_want_tls_ = false;  // it has said nothing yet, and is spoken to without
  std::string credentials_;    // still to be written, and answered, before anything else
  std::string login_;          // still to be written, with what comes first
  std::string login_owed_;     // a letter for each login command whose reply is to come
};

}  // namespace klock::redis
