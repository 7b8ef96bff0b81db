// SPDX-License-Identifier: MIT
#include "store/redis/tls_context.hpp"

#include "config/read_file.hpp"
#include "util/mutex.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#ifdef KLOCK_STATIC
// Linked in, OpenSSL looks at the processor before main() begins, which every start would pay for, TLS or
// not. The linker leads that call into nothing (--wrap in CMakeLists.txt); it is made up for when TLS is
// wanted.
void klock_no_processor_check() __asm__("__wrap_OPENSSL_cpuid_setup");
void klock_no_processor_check() {}
void klock_processor_check() __asm__("__real_OPENSSL_cpuid_setup");
#else
static void klock_processor_check() {}
#endif

namespace klock::redis {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Status wrong_file(const std::string& option, const std::string& path, const std::string& why,
                  std::string hint = {}) {
  return failure(ErrorKind::config, option + ": " + path + ": " + why, std::move(hint));
}

// Files are read by our own hands: OpenSSL's are open to commands that start meanwhile.
class Pem {
 public:
  explicit Pem(std::string text)
      : text_(std::move(text)), bio_(BIO_new_mem_buf(text_.data(), static_cast<int>(text_.size()))) {}
  Pem(const Pem&) = delete;
  Pem& operator=(const Pem&) = delete;
  ~Pem() { OPENSSL_cleanse(text_.data(), text_.size()); }

  // The next one; nullptr: there is none, or is_damaged().
  Owned<X509> certificate() { return Owned<X509>(PEM_read_bio_X509_AUX(bio_.get(), nullptr, none, nullptr)); }
  // A password can't be asked for: whoever runs klock may be no person.
  Owned<EVP_PKEY> key() {
    return Owned<EVP_PKEY>(PEM_read_bio_PrivateKey(bio_.get(), nullptr, none, &wants_password_));
  }
  bool wants_password() const { return wants_password_; }
  static bool is_damaged() { return ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE; }

 private:
  static int none(char*, int, int, void* wanted) {
    if (wanted != nullptr) *static_cast<bool*>(wanted) = true;
    return -1;
  }

  std::string text_;
  bool wants_password_ = false;
  const Owned<BIO> bio_;
};

Result<std::string> read_pem(const std::string& option, const std::string& path) {
  auto text = read_config_text(path);
  if (text) return *std::move(text);
  return tl::unexpected(
      wrong_file(option, path, std::string("cannot read it: ") + std::strerror(text.error())).error());
}

Status trust(SSL_CTX* context, const std::string& path) {
  constexpr const char* k_option = "tls-ca";
  if (path.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    if (::access(path.c_str(), R_OK | X_OK) != 0) return wrong_file(k_option, path, std::strerror(errno));
    SSL_CTX_load_verify_dir(context, path.c_str());
    return {};
  }
  KLOCK_TRY(text, read_pem(k_option, path));
  Pem pem(std::move(text));
  int count = 0;
  for (; const auto authority = pem.certificate(); ++count)
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  if (Pem::is_damaged()) return wrong_file(k_option, path, "a certificate in it is damaged");
  // One that is named is trusted, whoever has signed it.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  if (count == 0) return wrong_file(k_option, path, "there is no certificate in it", "it must be PEM");
  return {};
}

// Ours, then those of the authorities that have signed it.
Status use_certificate(SSL_CTX* context, const std::string& path) {
  KLOCK_TRY(text, read_pem("tls-cert", path));
  Pem pem(std::move(text));
  const auto own = pem.certificate();
  if (own == nullptr) return wrong_file("tls-cert", path, "there is no certificate in it", "it must be PEM");
  if (SSL_CTX_use_certificate(context, own.get()) != 1)
    return wrong_file("tls-cert", path, "the certificate is unusable", "its key may be too short to be safe");
  while (const auto authority = pem.certificate()) SSL_CTX_add1_chain_cert(context, authority.get());
  if (Pem::is_damaged()) return wrong_file("tls-cert", path, "a certificate in it is damaged");
  return {};
}

Status use_key(SSL_CTX* context, const TlsSettings& settings) {
  KLOCK_TRY(text, read_pem("tls-key", settings.key));
  Pem pem(std::move(text));
  const auto key = pem.key();
  if (pem.wants_password())
    return wrong_file("tls-key", settings.key, "it has a password",
                      "klock needs it without, readable by its owner alone");
  if (key == nullptr)
    return wrong_file("tls-key", settings.key, "there is no private key in it", "it must be PEM");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return wrong_file("tls-key", settings.key,
                      "the key is not that of the certificate " + settings.certificate);
  return {};
}

Result<TlsContext> make_context(const TlsSettings& settings) {
  klock_processor_check();
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  TlsContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return failure(ErrorKind::system, "OpenSSL cannot be used");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  auto done = trust(context.get(), settings.ca);
  if (done && !settings.certificate.empty()) done = use_certificate(context.get(), settings.certificate);
  if (done && !settings.certificate.empty()) done = use_key(context.get(), settings);
  ERR_clear_error();
  if (!done) return tl::unexpected(std::move(done).error());
  return context;
}

// What tells that a file has changed.
struct Stamp {
  ino_t inode = 0;
  off_t size = 0;
  std::time_t seconds = 0;
  long nanoseconds = 0;
  bool operator==(const Stamp&) const = default;
};
using Stamps = std::array<Stamp, 3>;

Stamp stamp_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

struct Made {
  TlsSettings settings;
  Stamps stamps;
  TlsContext context;
};

}  // namespace

Result<TlsContext> tls_context(const TlsSettings& settings) {
  static Mutex mutex;
  static auto& made = *new std::optional<Made>;  // never destroyed: a thread may be using it when we end
  const Locked locked(mutex);
  const bool known = made && made->settings == settings;
  const Stamps stamps{stamp_of(settings.ca), stamp_of(settings.certificate), stamp_of(settings.key)};
  if (known && made->stamps == stamps) return made->context;
  auto context = make_context(settings);
  if (!context) return known ? Result<TlsContext>(made->context) : context;
  made = Made{settings, stamps, *context};
  return context;
}

}  // namespace klock::redis
