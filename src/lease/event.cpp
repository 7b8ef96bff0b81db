// SPDX-License-Identifier: MIT
#include "lease/event.hpp"

#include <algorithm>
#include <array>

namespace klock {
namespace {

struct Named {
  EventKind kind;
  std::string_view name;
};

constexpr std::array<Named, 13> k_names{{
    {EventKind::waiting, "waiting"},
    {EventKind::acquired, "acquired"},
    {EventKind::timed_out, "timed_out"},
    {EventKind::gave_up, "gave_up"},
    {EventKind::skipped, "skipped"},
    {EventKind::renewed_late, "renewed_late"},
    {EventKind::reclaimed, "reclaimed"},
    {EventKind::released, "released"},
    {EventKind::forced, "forced"},
    {EventKind::lost, "lost"},
    {EventKind::expired, "expired"},
    {EventKind::degraded, "degraded"},
    {EventKind::reconnected, "reconnected"},
}};

}  // namespace

std::string_view event_name(EventKind kind) {
  const auto found =
      std::find_if(k_names.begin(), k_names.end(), [&](const Named& named) { return named.kind == kind; });
  return found == k_names.end() ? std::string_view() : found->name;
}

std::optional<EventKind> parse_event_name(std::string_view name) {
  const auto found =
      std::find_if(k_names.begin(), k_names.end(), [&](const Named& named) { return named.name == name; });
  if (found == k_names.end()) return std::nullopt;
  return found->kind;
}

}  // namespace klock
