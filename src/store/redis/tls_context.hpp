// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "util/result.hpp"

#include <memory>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace klock::redis {

// Whom we trust, and who we are. TLS 1.2 and 1.3, the library's own choice of ciphers.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Made when it is needed first, and again when one of its files has changed (certificates are short-lived);
// while the new ones don't go together, or are away, the old ones stay. Nothing of OpenSSL runs before.
// openssl.cnf is not read: it can ask for modules, which a static program must not load. Thread-safe.
// Blocking: reads files. Errors: config (unreadable, no PEM, a key with a password, a key of another
// certificate), system.
Result<TlsContext> tls_context(const TlsSettings& settings);

}  // namespace klock::redis
