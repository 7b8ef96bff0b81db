// SPDX-License-Identifier: MIT
#include "store/redlock/doctor.hpp"

#include "store/redlock/ballot.hpp"

#include <algorithm>
#include <map>

namespace klock::redlock {
namespace {

bool forbids_scripts(const Finding& finding) {
  return finding.subject == "scripts" && finding.severity != Severity::ok;
}

}  // namespace

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

void explain_scripts(std::vector<redis::ServerFindings>& servers, std::size_t configured) {
  const auto votes = std::count_if(servers.begin(), servers.end(), [](const redis::ServerFindings& server) {
    return std::none_of(server.findings.begin(), server.findings.end(), forbids_scripts);
  });
  const bool enough = static_cast<std::size_t>(votes) >= quorum_of(configured);
  for (redis::ServerFindings& server : servers)
    for (Finding& finding : server.findings) {
      if (!forbids_scripts(finding)) continue;
      finding.severity = enough ? Severity::warning : Severity::danger;
      // What a single server still gives without them does not exist here.
      finding.what.erase(std::min(finding.what.rfind(": "), finding.what.size()));
      finding.what +=
          enough ? ": it takes no part" : ": it takes no part, and without a majority no lock can be taken";
    }
}

std::vector<Finding> judge_names(const std::vector<redis::ServerFindings>& servers) {
  std::map<std::string, std::vector<std::string>> names;  // by identity
  for (const redis::ServerFindings& server : servers)
    for (const Finding& finding : server.findings)
      if (!finding.identity.empty()) names[finding.identity].push_back(server.server);
  std::vector<Finding> findings;
  for (const auto& [identity, same] : names) {
    if (same.size() < 2) continue;
    std::string what;
    for (const std::string& name : same) what += (what.empty() ? "" : " and ") + name;
    findings.push_back({Severity::danger, "names",
                        what + " are one server, which has " + std::to_string(same.size()) +
                            " votes: it may make a majority with fewer others",
                        "name each server once in the URL"});
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
