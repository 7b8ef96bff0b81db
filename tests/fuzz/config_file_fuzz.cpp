// SPDX-License-Identifier: MIT
#include "config/config_file.hpp"
#include "fuzz/fuzz.hpp"

using namespace klock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  RawValues values;
  const Status added = add_config_file(fuzz::text_of(data, size), "f.toml", Origin::user_file, values);
  if (!added) fuzz::require(added.error().what.find("f.toml") != std::string::npos, "errors name the file");
  for (const auto& [name, value] : values) fuzz::require(!name.empty(), "values have names");
  return 0;
}
