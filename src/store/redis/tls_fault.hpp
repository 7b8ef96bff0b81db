// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/protocol.hpp"

#include <string>

struct x509_store_ctx_st;  // OpenSSL's X509_STORE_CTX

namespace klock::redis {

// Why a certificate of the server's is not accepted (refused). `checking`: in a verify callback. What a
// certificate says is untrusted text. Pure.
Error refusal_of(x509_store_ctx_st* checking, const std::string& wanted_name);

// What this thread's oldest OpenSSL error means: usually an alert, with which the server has ended it
// (RFC 8446, 6.2).
Fault fault_of_tls();

// A server that begins with anything else than a TLS record.
Fault no_tls_fault();

}  // namespace klock::redis
