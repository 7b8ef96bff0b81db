// SPDX-License-Identifier: MIT
#include "output/shell_quote.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace klock {
namespace {

// What `shell` prints when it runs `script`.
std::string output_of(const std::string& shell, const std::string& script) {
  // The quotes of popen(3)'s own shell are of the kind under test: the script goes over the input.
  const std::string path = testing::TempDir() + "/shell_quote_test." + std::to_string(getpid());
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return "no file";
  std::fwrite(script.data(), 1, script.size(), file);
  std::fclose(file);
  FILE* const pipe = popen((shell + " " + path).c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  const int status = pclose(pipe);
  std::remove(path.c_str());
  return status == 0 ? text : text + " status " + std::to_string(status >> 8);
}

const std::vector<std::string> k_posix{"bash", "dash", "zsh -f", "mksh", "ksh93"};

// Every byte that a shell can hold, in both orders.
std::string every_byte() {
  std::string text;
  for (int c = 1; c < 256; ++c) text += static_cast<char>(c);
  return text + std::string(text.rbegin(), text.rend());
}

TEST(ShellQuote, Words) {
  EXPECT_EQ(shell_quoted("plain"), "'plain'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$(x) `y` \\ \"z\"\n"), "'$(x) `y` \\ \"z\"\n'");
  EXPECT_EQ(shell_quoted("it's", Shell::fish), "'it\\'s'");
  EXPECT_EQ(shell_quoted("a\\b", Shell::fish), "'a\\\\b'");
}

TEST(ShellQuote, EveryByteSurvivesEveryShell) {
  const std::string text = every_byte();
  for (const std::string& shell : k_posix)
    EXPECT_EQ(output_of(shell, "printf %s " + shell_quoted(text)), text) << shell;
  EXPECT_EQ(output_of("fish --no-config", "printf %s " + shell_quoted(text, Shell::fish)), text);
}

TEST(ShellQuote, ExportReachesChildren) {
  const std::string value = "a 'b' \"c\" $(d) `e` \\ *";
  for (const std::string& shell : k_posix)
    EXPECT_EQ(output_of(shell, shell_export("V", value, Shell::posix) + "printenv V"), value + "\n") << shell;
  EXPECT_EQ(output_of("fish --no-config", shell_export("V", value, Shell::fish) + "printenv V"),
            value + "\n");
}

TEST(ShellQuote, UnsetSucceedsWhetherItIsSetOrNot) {
  for (const std::string& shell : k_posix) {
    const std::string unset = "set -eu; " + shell_unset("V", Shell::posix) + "printf '%s' \"$? ${V-none} \";";
    EXPECT_EQ(output_of(shell, unset + shell_export("V", "x", Shell::posix) + unset), "0 none 0 none ")
        << shell;
  }
  const std::string unset = shell_unset("V", Shell::fish) + "printf '%s ' $status (set -q V; echo $status);";
  EXPECT_EQ(output_of("fish --no-config", unset + shell_export("V", "x", Shell::fish) + unset), "0 1 0 1 ");
}

TEST(ShellQuote, FailureHasTheStatus) {
  for (const std::string& shell : k_posix)
    EXPECT_EQ(output_of(shell, shell_failure(75, Shell::posix) + "echo $?"), "75\n") << shell;
  EXPECT_EQ(output_of("fish --no-config", shell_failure(75, Shell::fish) + "echo $status"), "75\n");
}

}  // namespace
}  // namespace klock
