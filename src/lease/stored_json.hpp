// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace klock {

// Reading what stores keep as JSON. Others wrote it, so reading never fails: "", 0 or false stands for what
// is missing or has the wrong shape, also when `json` is no object at all.

std::string text_of(const nlohmann::json& json, const char* member);     // cut to 4096 bytes
std::int64_t number_of(const nlohmann::json& json, const char* member);  // 0 too if negative or out of range
bool flag_of(const nlohmann::json& json, const char* member);

Mode mode_of(const nlohmann::json& json, const char* member);  // exclusive if it is none of the others

// From the members that are called as those of Person are.
Person person_of(const nlohmann::json& json);

}  // namespace klock
