// SPDX-License-Identifier: MIT
#include "store/redis/connection.hpp"

#include "store/redis/dial.hpp"
#include "store/redis/tls_stream.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace klock::redis {
namespace {

constexpr char k_auth = 'a';
constexpr char k_select = 's';
constexpr char k_set_name = 'n';
constexpr char k_role = 'r';
constexpr char k_member = 'm';

// Everything that can be wrong in the configuration is found before there is any traffic.
Io<std::unique_ptr<Stream>> open_stream(const RedisUrl& url, Instant deadline, Interrupt interrupt) {
  Result<TlsContext> context;
  if (url.tls) context = tls_context(*url.tls);
  if (!context) return tl::unexpected<Fault>(Fault{Cause::final, std::move(context).error()});
  KLOCK_TRY(socket, dial(url, deadline, interrupt));
  auto plain = std::make_unique<SocketStream>(std::move(socket));
  if (!url.tls) return plain;
  const std::string& name = url.tls->server_name.empty() ? url.host : url.tls->server_name;
  return open_tls(*context, std::move(plain), name, deadline, interrupt);
}

}  // namespace

std::string describe_endpoint(const RedisUrl& url) {
  const bool brackets = url.host.find(':') != std::string::npos;
  return (brackets ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

bool is_same(const RedisUrl& a, const RedisUrl& b) {
  return a.host == b.host && a.port == b.port;
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

Instant silent_until(const RedisUrl& server, Instant deadline) {
  const auto patience = std::chrono::milliseconds(server.tls ? 600 : 300);
  return std::min<Instant>(deadline, BootClock::now() + patience);
}

Io<std::unique_ptr<Connection>> Connection::open(const RedisUrl& url, Login login, Instant deadline,
                                                 Interrupt interrupt) {
  KLOCK_TRY(stream, open_stream(url, deadline, interrupt));
  std::unique_ptr<Connection> connection(new Connection(std::move(stream)));
  connection->may_want_tls_ = !url.tls && url.socket_path.empty();
  Pipeline credentials;
  // A user without a password may be one who needs none; to go on as the default user would be somebody else.
  const bool logs_in = !url.password.empty() || !url.user.empty();
  if (logs_in && url.user.empty()) credentials.add({"AUTH", url.password.reveal()});
  if (logs_in && !url.user.empty()) credentials.add({"AUTH", url.user, url.password.reveal()});
  if (url.database != 0) credentials.add({"SELECT", std::to_string(url.database)});
  connection->credentials_ = credentials.bytes();
  std::string& owed = connection->login_owed_;
  if (logs_in) owed += k_auth;
  if (url.database != 0) owed += k_select;
  Pipeline words;
  words.add({"CLIENT", "SETNAME", "klock"});
  owed += k_set_name;
  if (login == Login::master) {
    words.add({"ROLE"});
    owed += k_role;
  } else if (login == Login::member || login == Login::asking) {
    // Changes nothing, and any other server refuses both.
    words.add({login == Login::member ? "READWRITE" : "ASKING"});
    owed += k_member;
  }
  connection->login_ = words.bytes();
  return connection;
}

Io<void> Connection::write(const Pipeline& commands, Instant deadline, Interrupt interrupt) {
  if (!credentials_.empty()) {
    KLOCK_CHECK(stream_->write(std::exchange(credentials_, {}), deadline, interrupt));
    while (login_owed_.front() == k_auth || login_owed_.front() == k_select)
      KLOCK_CHECK(read_login_step(deadline, interrupt));
  }
  if (login_.empty()) return stream_->write(commands.bytes(), deadline, interrupt);
  const std::string bytes = login_ + commands.bytes();
  login_.clear();
  return stream_->write(bytes, deadline, interrupt);
}

Io<Reply> Connection::read(Instant deadline, Interrupt interrupt) {
  while (!login_owed_.empty()) KLOCK_CHECK(read_login_step(deadline, interrupt));
  return read_reply(deadline, interrupt);
}

Io<void> Connection::read_login_step(Instant deadline, Interrupt interrupt) {
  KLOCK_TRY(reply, read_reply(deadline, interrupt));
  const char step = login_owed_.front();
  login_owed_.erase(0, 1);
  if (step == k_role && !reply.is_error() && reply.text_at(0) != "master")
    return fault(Cause::later, ErrorKind::not_ready, "the server is no master", "is a failover on its way?");
  if (!reply.is_error()) return {};
  Fault meaning = step == k_auth ? login_fault_of(reply.text) : fault_of(reply.text);
  if (step != k_set_name && step != k_role && meaning.cause == Cause::final) meaning.cause = Cause::login;
  if (step == k_member && meaning.cause == Cause::no_permission) return {};
  // A server that refuses just the name is fine. But it may hang up after this answer: a refusal that it
  // gives to everything (NOAUTH, DENIED, too many clients) must not be lost.
  const bool name_alone = meaning.cause == Cause::no_permission ||
                          meaning.error.kind == ErrorKind::protocol || reply.text.starts_with("ERR unknown");
  // One that does not tell its role is taken for what the others say of it.
  if ((step == k_set_name || step == k_role) && name_alone) return {};
  return tl::unexpected<Fault>(meaning);
}

Io<Reply> Connection::read_reply(Instant deadline, Interrupt interrupt) {
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    auto reply = reader_.next();
    if (!reply) return tl::unexpected<Fault>(Fault{Cause::final, std::move(reply).error()});
    if (reply->has_value()) return std::move(**reply);
    auto size = stream_->read(buffer, deadline, interrupt);
    if (!size && size.error().cause == Cause::closed && may_want_tls_)
      size.error().error.hint = "is it restarting, or is this a port for TLS (rediss://)?";
    if (!size) return tl::unexpected<Fault>(std::move(size).error());
    may_want_tls_ = false;
    reader_.feed(buffer.data(), *size);
  }
}

}  // namespace klock::redis
