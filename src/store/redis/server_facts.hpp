// SPDX-License-Identifier: MIT
#pragma once

#include "lease/diagnosis.hpp"
#include "util/clock.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// What a server tells of itself. Untrusted: names and values are cut to a sane length.
class ServerFacts {
 public:
  // The answer to INFO: "name:value" lines. Whatever else is in there is passed over.
  void add_info(std::string_view text);
  // An answer to CONFIG GET.
  void add_setting(std::string_view name, std::string_view value);

  // Missing: it does not tell, or does not tell us.
  std::optional<std::string> info(std::string_view name) const { return find(info_, name); }
  std::optional<std::string> setting(std::string_view name) const { return find(settings_, name); }
  std::optional<std::int64_t> info_number(std::string_view name) const { return number(info(name)); }
  std::optional<std::int64_t> setting_number(std::string_view name) const { return number(setting(name)); }

  static std::optional<std::int64_t> number(const std::optional<std::string>& text);

 private:
  using Values = std::map<std::string, std::string, std::less<>>;
  static std::optional<std::string> find(const Values& values, std::string_view name);

  Values info_;
  Values settings_;
};

// The settings that judge_server() looks at, for CONFIG GET.
std::vector<std::string_view> wanted_settings();

// Server, persistence, eviction, memory, role, replication, min-replicas, restart: one finding each, but
// those that have no meaning here. That of the server has its run_id. Pure.
std::vector<Finding> judge_server(const ServerFacts& facts, Duration ttl);

}  // namespace klock::redis
