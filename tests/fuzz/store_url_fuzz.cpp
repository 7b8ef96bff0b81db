// SPDX-License-Identifier: MIT
#include "config/store_url.hpp"
#include "fuzz/fuzz.hpp"

#include <string>

using namespace klock;

namespace {

// A password that does not occur in the rest of a URL by chance.
constexpr const char* k_password = "s3kr1t";

bool shows(const std::string& text) {
  return text.find(k_password) != std::string::npos;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  auto url = parse_store_url(text);
  fuzz::require(redact_url(redact_url(text)) == redact_url(text),
                "hiding hides nothing more the second time");
  if (!url) return 0;
  for (const RedisUrl* server : servers_of(*url)) {
    const std::string& password = server->password.reveal();
    // One with a comma or a slash can also be taken for several servers.
    const bool plain = !password.empty() && password.find_first_of(",/") == std::string::npos;
    fuzz::require(!plain || shows_password(text), "a password is noticed");
  }
  // "scheme://user:password@..." of what was a good URL: nothing of it is shown, good or not.
  if (std::holds_alternative<LocalUrl>(*url) || shows(text) || text.find('@') != std::string::npos) return 0;
  const auto start = text.find("://");
  const std::string with = text.substr(0, start + 3) + "u:" + k_password + "@" + text.substr(start + 3);
  fuzz::require(!shows(redact_url(with)), "passwords are hidden");
  const auto again = parse_store_url(with);
  fuzz::require(again || !shows(again.error().what), "passwords are hidden in errors");
  return 0;
}
