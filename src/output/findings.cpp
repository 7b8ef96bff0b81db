// SPDX-License-Identifier: MIT
#include "output/findings.hpp"

#include "output/escape.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace klock {
namespace {

const char* severity_word(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::unknown:
      return "unknown";
    case Severity::warning:
      return "warning";
    case Severity::danger:
      return "danger";
  }
  return "";
}

std::string in_column(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text + "  ";
}

std::string severity_column(Severity severity) {
  constexpr std::size_t k_longest = 7;
  std::string word = severity_word(severity);
  for (char& c : word) c = static_cast<char>(c - 'a' + 'A');
  return in_column(word, k_longest);
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings) {
  std::size_t widest = 0;
  for (const Finding& finding : findings) widest = std::max(widest, finding.subject.size());
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        severity_column(finding.severity) + in_column(finding.subject, widest) + escape_text(finding.what);
    if (!finding.remedy.empty()) text += "; remedy: " + escape_text(finding.remedy);
    text += '\n';
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const Finding& finding : findings)
    json.push_back({{"severity", severity_word(finding.severity)},
                    {"subject", finding.subject},
                    {"what", finding.what},
                    {"remedy", finding.remedy.empty() ? Json(nullptr) : Json(finding.remedy)}});
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace klock
