// SPDX-License-Identifier: MIT
#include "store/redis/connection.hpp"
#include "store/redis/tls_context.hpp"
#include "support/fake_server.hpp"
#include "support/redis_fixture.hpp"
#include "support/self_signed.hpp"

#include <sys/eventfd.h>

#include <filesystem>
#include <fstream>

namespace klock::test {
namespace {

namespace fs = std::filesystem;

// As an atomic replacement does it, so that it is another file for sure.
void replace(const std::string& path, const std::string& source) {
  fs::copy_file(source, path + ".new");
  fs::rename(path + ".new", path);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

TEST(TlsContext, IsSharedUntilAFileChanges) {
  const SelfSigned one;
  const SelfSigned two;
  const TlsSettings settings{one.certificate(), one.certificate(), one.key(), ""};
  const auto first = redis::tls_context(settings);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(*redis::tls_context(settings), *first);
  replace(one.certificate(), two.certificate());
  EXPECT_EQ(*redis::tls_context(settings), *first) << "its key is still the old one";
  replace(one.key(), two.key());
  const auto second = redis::tls_context(settings);
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
  EXPECT_EQ(*redis::tls_context(settings), *second);
  fs::remove(one.key());
  EXPECT_EQ(*redis::tls_context(settings), *second);
  EXPECT_FALSE(redis::tls_context({one.certificate(), one.certificate(), one.key(), "other"}));
}

TEST(TlsContext, WhatIsWrongWithTheFiles) {
  const SelfSigned own;
  const SelfSigned other;
  const std::string empty = own.directory() + "/empty";
  write(empty, "");
  const std::string broken = own.directory() + "/broken";
  write(broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const std::string half = own.directory() + "/half";
  fs::copy_file(own.certificate(), half);
  std::ofstream(half, std::ios::app) << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const struct {
    TlsSettings settings;
    const char* what;
  } cases[] = {
      {{own.directory() + "/none", "", "", ""}, "tls-ca"},
      {{empty, "", "", ""}, "no certificate in it"},
      {{broken, "", "", ""}, "damaged"},
      {{half, "", "", ""}, "damaged"},
      {{"", half, own.key(), ""}, "damaged"},
      {{own.key(), "", "", ""}, "no certificate in it"},
      {{"", empty, own.key(), ""}, "tls-cert"},
      {{"", own.certificate(), empty, ""}, "no private key in it"},
      {{"", own.certificate(), other.key(), ""}, "not that of the certificate"},
      {{"", own.certificate(), own.directory(), ""}, "tls-key"},
  };
  for (const auto& one : cases) {
    const auto context = redis::tls_context(one.settings);
    ASSERT_FALSE(context) << one.what;
    EXPECT_EQ(context.error().kind, ErrorKind::config);
    EXPECT_NE(context.error().what.find(one.what), std::string::npos) << context.error().what;
  }
}

RedisUrl tls_url(std::uint16_t port, const std::string& ca) {
  RedisUrl url;
  url.host = "127.0.0.1";
  url.port = port;
  url.tls = TlsSettings{ca, "", "", ""};
  return url;
}

TEST(TlsStream, CarriesMoreThanABufferHoldsBothWays) {
  const SelfSigned own;
  const std::uint16_t port = free_port();
  const RedisServer server(own.server_options(port));
  auto connection =
      redis::Connection::open(tls_url(port, own.certificate()), redis::Login::plain, in_ms(10000), {});
  ASSERT_TRUE(connection) << connection.error().error.what;
  const std::string large(5'000'000, 'x');
  redis::Pipeline out;
  for (const char* word : {"a", "b"}) {
    out.add({"ECHO", large});
    out.add({"ECHO", word});
  }
  ASSERT_TRUE((*connection)->write(out, in_ms(20000), {}));
  for (const char* word : {"a", "b"}) {
    const auto reply = (*connection)->read(in_ms(20000), {});
    ASSERT_TRUE(reply) << reply.error().error.what;
    EXPECT_EQ(reply->text, large);
    EXPECT_EQ((*connection)->read(in_ms(20000), {})->text, word);
  }
  // A read that ran into its deadline leaves the connection good.
  const auto nothing = (*connection)->read(in_ms(20), {});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().cause, redis::Cause::timeout);
  redis::Pipeline last;
  last.add({"ECHO", "again"});
  ASSERT_TRUE((*connection)->write(last, in_ms(10000), {}));
  EXPECT_EQ((*connection)->read(in_ms(10000), {})->text, "again");
}

redis::Fault fault_at(std::uint16_t port, int milliseconds, Interrupt interrupt = {}) {
  auto connection =
      redis::Connection::open(tls_url(port, ""), redis::Login::plain, in_ms(milliseconds), interrupt);
  return connection ? redis::Fault{redis::Cause::final, {ErrorKind::internal, "no fault"}}
                    : connection.error();
}

TEST(TlsStream, ASilentServerCostsNoMoreThanTheDeadline) {
  const FakeServer server([](int fd) {
    while (!receive_some(fd).empty()) continue;
  });
  const Instant start = BootClock::now();
  const redis::Fault fault = fault_at(server.port(), 300);
  EXPECT_EQ(fault.cause, redis::Cause::timeout);
  EXPECT_GE(ms_since(start), 300);
  EXPECT_LT(ms_since(start), 3000 * slow_factor());
  const Fd raised(eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(fault_at(server.port(), 60000, {raised.get()}).cause, redis::Cause::interrupted);
}

TEST(TlsStream, NonsenseEndsTheHandshakeAtOnce) {
  const std::string handshake("\x16\x03\x03\x00\x05hello", 10);
  const std::string alert("\x15\x03\x03\x00\x02\x02\x28", 7);
  const struct {
    std::string answer;
    redis::Cause cause;
    ErrorKind kind;
  } cases[] = {
      {"", redis::Cause::closed, ErrorKind::unreachable},
      {"-ERR unknown command\r\n", redis::Cause::tls, ErrorKind::protocol},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", redis::Cause::tls, ErrorKind::protocol},
      {handshake, redis::Cause::tls, ErrorKind::protocol},
      {alert, redis::Cause::tls, ErrorKind::refused},
      {alert.substr(0, 3), redis::Cause::closed, ErrorKind::unreachable},
      {std::string(40000, '\x16'), redis::Cause::tls, ErrorKind::protocol},
  };
  for (const auto& one : cases) {
    const FakeServer server([&](int fd) {
      receive_some(fd);
      send_text(fd, one.answer);
    });
    const redis::Fault fault = fault_at(server.port(), 20000);
    EXPECT_EQ(fault.cause, one.cause) << one.answer.substr(0, 20) << ": " << fault.error.what;
    EXPECT_EQ(fault.error.kind, one.kind) << one.answer.substr(0, 20) << ": " << fault.error.what;
  }
}

}  // namespace
}  // namespace klock::test
