// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace klock::test {

// A certificate for 127.0.0.1 that is signed by itself, made by openssl(1) in a directory of its own: whoever
// has it as --tls-ca trusts it. Throws std::runtime_error.
class SelfSigned {
 public:
  SelfSigned();
  ~SelfSigned();
  SelfSigned(const SelfSigned&) = delete;
  SelfSigned& operator=(const SelfSigned&) = delete;

  std::string directory() const { return directory_; }
  std::string certificate() const { return directory_ + "/own.crt"; }
  std::string key() const { return directory_ + "/own.key"; }

  // For a redis-server that shows it on this port too.
  std::vector<std::string> server_options(std::uint16_t port) const;

 private:
  std::string directory_;
};

}  // namespace klock::test
