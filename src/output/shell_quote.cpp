// SPDX-License-Identifier: MIT
#include "output/shell_quote.hpp"

namespace klock {

std::string shell_quoted(std::string_view text, Shell shell) {
  std::string quoted = "'";
  for (const char c : text) {
    // Between single quotes fish knows two escapes; the others know none, so the quotes have to be left.
    if (shell == Shell::fish && (c == '\'' || c == '\\'))
      quoted.append(1, '\\').append(1, c);
    else if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string shell_export(std::string_view variable, std::string_view value, Shell shell) {
  std::string line = shell == Shell::fish ? "set -gx " : "export ";
  line.append(variable).append(shell == Shell::fish ? " " : "=");
  return line + shell_quoted(value, shell) + ";\n";
}

std::string shell_unset(std::string_view variable, Shell shell) {
  const std::string name(variable);
  // fish calls it a failure if there is none, and the commands that follow keep that status.
  return shell == Shell::fish ? "if set -qg " + name + "; set -eg " + name + "; end;\n"
                              : "unset " + name + ";\n";
}

std::string shell_failure(int status, Shell shell) {
  const std::string number = std::to_string(status);
  // fish has subshells only as processes of other shells.
  return shell == Shell::fish ? "/bin/sh -c 'exit " + number + "';\n" : "(exit " + number + ");\n";
}

}  // namespace klock
