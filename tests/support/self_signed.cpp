// SPDX-License-Identifier: MIT
#include "support/self_signed.hpp"

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace klock::test {

SelfSigned::SelfSigned() {
  std::string pattern = (std::filesystem::temp_directory_path() / "klock-tls-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  directory_ = pattern;
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test "
      "-addext "
      "subjectAltName=IP:127.0.0.1 -keyout " +
      key() + " -out " + certificate() + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl failed");
}

SelfSigned::~SelfSigned() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::vector<std::string> SelfSigned::server_options(std::uint16_t port) const {
  return {"--tls-port", std::to_string(port), "--tls-cert-file", certificate(),        "--tls-key-file",
          key(),        "--tls-ca-cert-file", certificate(),     "--tls-auth-clients", "no"};
}

}  // namespace klock::test
