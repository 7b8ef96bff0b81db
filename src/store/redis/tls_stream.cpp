// SPDX-License-Identifier: MIT
#include "store/redis/tls_stream.hpp"

#include "store/redis/tls_fault.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <new>
#include <optional>

namespace klock::redis {
namespace {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

// OpenSSL only turns bytes into bytes here, in memory; they travel over the plain stream, which knows about
// deadlines, interrupts and signals.
class TlsStream final : public Stream {
 public:
  TlsStream(SSL_CTX* context, std::unique_ptr<Stream> socket, const std::string& name)
      : socket_(std::move(socket)), name_(name), ssl_(SSL_new(context)) {
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_connect_state(ssl_.get());
    SSL_set_app_data(ssl_.get(), this);
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, judge);
    expect_name();
  }

  Io<void> handshake(Instant deadline, Interrupt interrupt);
  Io<void> write(std::string_view bytes, Instant deadline, Interrupt interrupt) override;
  Io<std::size_t> read(std::span<char> buffer, Instant deadline, Interrupt interrupt) override;

 private:
  void expect_name();
  static int judge(int accepted, X509_STORE_CTX* checking) noexcept;
  Io<void> flush(Instant deadline, Interrupt interrupt);
  Io<void> fill(Instant deadline, Interrupt interrupt);
  Fault take_fault();

  const std::unique_ptr<Stream> socket_;
  std::string name_;
  const Ssl ssl_;
  BIO* in_ = nullptr;  // ssl_'s, as the following
  BIO* out_ = nullptr;
  bool spoken_ = false;  // the server has said anything
  std::optional<Error> refusal_;
};

void TlsStream::expect_name() {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl_.get());
  bool done = X509_VERIFY_PARAM_set1_ip_asc(expected, name_.c_str()) == 1;
  if (!done) {
    // An address is never sent as a server's name (RFC 6066, 3).
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    done = X509_VERIFY_PARAM_set1_host(expected, name_.data(), name_.size()) == 1 &&
           SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name_.data()) == 1;
  }
  if (!done) throw std::bad_alloc();
}

// Called by OpenSSL for each certificate of the chain.
int TlsStream::judge(int accepted, X509_STORE_CTX* checking) noexcept {
  if (accepted == 1) return 1;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(checking, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const self = static_cast<TlsStream*>(SSL_get_app_data(ssl));
  self->refusal_ = refusal_of(checking, self->name_);
  return 0;
}

Fault TlsStream::take_fault() {
  if (refusal_) return Fault{Cause::tls, *std::exchange(refusal_, std::nullopt)};
  return fault_of_tls();
}

// What OpenSSL has to say to the server. Cut short it is gone, and so is the connection.
Io<void> TlsStream::flush(Instant deadline, Interrupt interrupt) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out_, &bytes);
  if (size <= 0) return {};
  auto sent = socket_->write({bytes, static_cast<std::size_t>(size)}, deadline, interrupt);
  BIO_reset(out_);
  return sent;
}

Io<void> TlsStream::fill(Instant deadline, Interrupt interrupt) {
  constexpr char k_alert_record = 21;
  constexpr char k_handshake_record = 22;
  std::array<char, 16 * 1024> buffer;
  KLOCK_TRY(size, socket_->read(buffer, deadline, interrupt));
  if (!std::exchange(spoken_, true) && buffer[0] != k_handshake_record && buffer[0] != k_alert_record)
    return tl::unexpected<Fault>(no_tls_fault());
  if (BIO_write(in_, buffer.data(), static_cast<int>(size)) != static_cast<int>(size)) throw std::bad_alloc();
  return {};
}

Io<void> TlsStream::handshake(Instant deadline, Interrupt interrupt) {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    const bool failed = result != 1 && SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ;
    const std::optional<Fault> why = failed ? std::optional<Fault>(take_fault()) : std::nullopt;
    auto sent = flush(deadline, interrupt);  // of a failure, too: the server's log tells then
    if (why) return tl::unexpected<Fault>(*why);
    if (!sent || result == 1) return sent;
    if (auto filled = fill(deadline, interrupt); !filled) {
      Fault fault = std::move(filled).error();
      if (fault.cause == Cause::timeout || fault.cause == Cause::closed) {
        fault.error.what += " in the TLS handshake";
        fault.error.hint = "is it stopped or overloaded, or without TLS on this port?";
      }
      return tl::unexpected<Fault>(std::move(fault));
    }
  }
}

Io<void> TlsStream::write(std::string_view bytes, Instant deadline, Interrupt interrupt) {
  if (bytes.empty()) return {};
  ERR_clear_error();
  std::size_t taken = 0;
  // Into memory it takes everything, unless the connection is over.
  if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken) != 1 || taken != bytes.size())
    return closed_fault();
  return flush(deadline, interrupt);
}

Io<std::size_t> TlsStream::read(std::span<char> buffer, Instant deadline, Interrupt interrupt) {
  for (;;) {
    ERR_clear_error();
    std::size_t size = 0;
    const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &size);
    if (result == 1) return size;
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_ZERO_RETURN) return closed_fault();
    if (error != SSL_ERROR_WANT_READ) return tl::unexpected<Fault>(take_fault());
    KLOCK_CHECK(flush(deadline, interrupt));  // the answer to a change of keys
    KLOCK_CHECK(fill(deadline, interrupt));
  }
}

}  // namespace

Io<std::unique_ptr<Stream>> open_tls(const TlsContext& context, std::unique_ptr<Stream> socket,
                                     const std::string& name, Instant deadline, Interrupt interrupt) {
  auto stream = std::make_unique<TlsStream>(context.get(), std::move(socket), name);
  KLOCK_CHECK(stream->handshake(deadline, interrupt));
  return stream;
}

}  // namespace klock::redis
