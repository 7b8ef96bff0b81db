// SPDX-License-Identifier: MIT
#include "commands/plan.hpp"

#include "commands/ancestors.hpp"
#include "commands/context.hpp"
#include "output/shell_quote.hpp"
#include "supervise/program.hpp"
#include "util/random.hpp"

#include <algorithm>
#include <cstdlib>

namespace klock {
namespace {

std::vector<std::string> shell_command(const std::string& text) {
  const char* shell = std::getenv("SHELL");
  return {shell != nullptr && *shell != '\0' ? shell : "/bin/sh", "-c", text};
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string command_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

// NAME's first.
Result<std::vector<Claim>> make_claims(const RunRequest& request, const Settings& settings,
                                       const std::vector<Token>& ancestors) {
  KLOCK_TRY(lock, make_lock_name(settings.prefix.value, request.name, request.key));
  KLOCK_TRY(token, random_hex128());
  Claim claim;
  claim.lock = std::move(lock);
  claim.token = Token{std::move(token)};
  claim.mode = request.mode;
  claim.slots = request.slots;
  claim.ttl = settings.ttl.value;
  claim.min_hold = settings.min_hold.value;
  claim.reclaim = settings.on_gone.value == OnGone::reclaim;
  claim.max_waiters = settings.max_waiters.value;
  KLOCK_TRY(replicas, chosen_replicas(settings));
  claim.wait_replicas = replicas;
  claim.ancestors = ancestors;
  KLOCK_TRY(group, chosen_group(settings));
  claim.group = std::move(group);
  std::vector<Claim> claims{claim};
  for (const std::string& name : request.also) {
    KLOCK_TRY(also, make_lock_name(settings.prefix.value, name, {}));
    claim.lock = std::move(also);
    const auto same = [&](const Claim& other) { return other.lock.key == claim.lock.key; };
    if (std::none_of(claims.begin(), claims.end(), same)) claims.push_back(claim);
  }
  if (claims.size() > k_most_holds)
    return failure(ErrorKind::usage, "at most " + std::to_string(k_most_holds) + " locks go into one run");
  if (request.once) claims.front().once = Once{*request.once, settings.once_ttl.value};
  return claims;
}

Result<JobOptions> make_job_options(const RunRequest& request, const Settings& settings) {
  KLOCK_TRY(signal, stop_signal(settings));
  KLOCK_CHECK(check_kill_after(settings));
  JobOptions job;
  job.argv = request.shell_command ? shell_command(*request.shell_command) : request.command;
  if (request.unless) job.check = shell_command(*request.unless);
  job.stop_signal = signal;
  job.kill_after = settings.kill_after.value;
  job.bound_forwarded = settings.kill_after_given;
  job.max_hold = settings.max_hold.value;
  job.stop_at_deadline = settings.on_lost.value == OnLost::stop;
  job.tree = settings.tree.value;
  job.tell_start = false;
  return job;
}

// Looks up whom to execute.
std::optional<Plan::Missing> find(const std::vector<std::string>& argv, std::string& program) {
  if (argv.empty()) return std::nullopt;
  auto found = find_program(argv[0]);
  if (const auto* missing = std::get_if<ProgramMissing>(&found))
    return Plan::Missing{argv[0], missing->error};
  program = std::get<std::string>(std::move(found));
  return std::nullopt;
}

}  // namespace

Result<Plan> make_plan(const RunRequest& request, const Settings& settings) {
  Plan plan;
  KLOCK_TRY(claims, make_claims(request, settings, ancestor_tokens()));
  KLOCK_TRY(job, make_job_options(request, settings));
  plan.claims = std::move(claims);
  plan.job = std::move(job);
  plan.missing = find(plan.job.argv, plan.job.program);
  if (!plan.missing) plan.missing = find(plan.job.check, plan.job.check_program);
  Person who = describe_self(base_name(plan.job.argv[0]), settings.message.value);
  if (settings.record_command.value == RecordCommand::full) who.command = command_line(plan.job.argv);
  for (Claim& claim : plan.claims) claim.who = who;
  return plan;
}

}  // namespace klock
