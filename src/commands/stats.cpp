// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "lease/name_pattern.hpp"
#include "output/statistics.hpp"
#include "output/stdout.hpp"
#include "util/exit_status.hpp"

#include <algorithm>

namespace klock {

int stats(const StatsRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, {}, context.error());
  const std::string store = context->store->describe();
  auto groups = context->store->statistics(store_deadline(context->settings), {});
  if (!groups) return report_failure(context->say, {}, store, groups.error());
  std::erase_if(*groups,
                [&](const GroupStatistics& group) { return !matches(group.group, request.pattern); });
  const std::string text = request.prometheus ? statistics_prometheus(*groups, store)
                           : request.json     ? statistics_json(*groups)
                                              : statistics_text(*groups);
  if (text.empty()) return k_exit_ok;
  if (const auto written = write_stdout(text); !written)
    return report_failure(context->say, {}, {}, written.error());
  return k_exit_ok;
}

}  // namespace klock
