// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/stream.hpp"
#include "store/redis/tls_context.hpp"

#include <memory>
#include <string>

namespace klock::redis {

// TLS over `socket`, once both sides have agreed and the server's certificate has been verified: signed by
// one whom `context` trusts, valid now, and for `name`, which is a host name or an address in numbers (RFC
// 6125). Faults: interrupted; timeout; closed; tls: the server's certificate is not accepted or it does not
// accept ours (refused), it speaks no TLS or none of ours (protocol). With TLS 1.3 a server judges our
// certificate after the handshake: then the fault comes with the first read().
Io<std::unique_ptr<Stream>> open_tls(const TlsContext& context, std::unique_ptr<Stream> socket,
                                     const std::string& name, Instant deadline, Interrupt interrupt);

}  // namespace klock::redis
