// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "output/findings.hpp"
#include "output/stdout.hpp"
#include "util/exit_status.hpp"

namespace klock {
namespace {

int status_of(const std::vector<Finding>& findings) {
  switch (worst_of(findings)) {
    case Severity::danger:
      return k_exit_danger;
    case Severity::warning:
      return k_exit_warning;
    case Severity::ok:
    case Severity::unknown:
      return k_exit_ok;
  }
  return k_exit_internal;
}

}  // namespace

int doctor(const DoctorRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, "doctor", context.error());
  const Settings& settings = context->settings;
  const auto findings = context->store->examine(settings.ttl.value, store_deadline(settings), {});
  if (!findings) return report_failure(context->say, "doctor", context->store->describe(), findings.error());
  const std::string text = request.json ? findings_json(*findings) : findings_text(*findings);
  if (const auto written = write_stdout(text); !written)
    return report_failure(context->say, "doctor", {}, written.error());
  return status_of(*findings);
}

}  // namespace klock
