// SPDX-License-Identifier: MIT
#include "store/redlock/delayed_restart.hpp"

#include "store/redlock/ballot.hpp"

namespace klock::redlock {

std::vector<Finding> explain_restart(std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    if (finding.severity != Severity::warning) continue;
    if (finding.subject == "restart") {
      finding.severity = Severity::danger;
      finding.what += ", and it votes for others meanwhile: with it two may get a majority";
      finding.remedy =
          "after a restart keep it stopped for one lease, or let it lose nothing (appendfsync always)";
    } else if (finding.subject == "persistence") {
      finding.what += "; start it again only after one lease";
    }
  }
  return findings;
}

Finding judge_majority(std::size_t servers, const std::vector<std::string>& missing) {
  const std::size_t answered = servers - missing.size();
  std::string what = std::to_string(answered) + " of " + std::to_string(servers) + " servers answer, " +
                     std::to_string(quorum_of(servers)) + " are needed";
  if (missing.empty()) {
    if (servers % 2 == 0)
      return {Severity::warning, "majority",
              what + ": an even number outlasts no more failures than one less", "three or five servers"};
    return {Severity::ok, "majority", what};
  }
  for (const std::string& one : missing) what += "; " + one;
  return {Severity::warning, "majority", what, "bring back those that are missing"};
}

}  // namespace klock::redlock
