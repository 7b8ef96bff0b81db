// SPDX-License-Identifier: MIT
#include "store/redis/digest.hpp"

#include <sha1.h>

#include <array>

namespace klock::redis {
namespace {

void update(SHA1_CTX& context, std::string_view text) {
  SHA1Update(&context, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

}  // namespace

std::string digest_of(std::string_view type, std::string_view content) {
  SHA1_CTX context;
  SHA1Init(&context);
  update(context, type);
  update(context, content);
  std::array<char, SHA1_DIGEST_STRING_LENGTH> text{};
  SHA1End(&context, text.data());
  return text.data();
}

}  // namespace klock::redis
