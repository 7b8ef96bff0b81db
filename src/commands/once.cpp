// SPDX-License-Identifier: MIT
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "output/escape.hpp"
#include "output/state_text.hpp"
#include "output/stdout.hpp"
#include "util/exit_status.hpp"

namespace klock {
namespace {

Result<int> show(const OnceRequest& request, const Context& context, const LockName& lock) {
  KLOCK_TRY(marker, context.store->marker(lock, request.once, store_deadline(context.settings)));
  if (request.json) {
    KLOCK_CHECK(write_stdout(marker_json(lock, context.store->describe(), request.once, marker)));
  } else {
    const std::string what = marker ? describe_marker(*marker) : "not completed";
    KLOCK_CHECK(write_stdout(escape_text(request.once) + ": " + what + "\n"));
  }
  return marker ? k_exit_ok : k_exit_no;
}

Result<int> act(const OnceRequest& request, const Context& context) {
  KLOCK_TRY(lock, make_lock_name(context.settings.prefix.value, request.name, request.key));
  if (request.what == OnceRequest::What::show) return show(request, context, lock);
  KLOCK_TRY(cleared, context.store->clear_marker(lock, request.once, store_deadline(context.settings)));
  return cleared ? k_exit_ok : k_exit_no;
}

}  // namespace

int once(const OnceRequest& request) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, request.name, context.error());
  const auto status = act(request, *context);
  return status ? *status
                : report_failure(context->say, request.name, context->store->describe(), status.error());
}

}  // namespace klock
