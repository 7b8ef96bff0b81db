// SPDX-License-Identifier: MIT
#include "output/findings.hpp"

#include "store/local/directory_doctor.hpp"

#include <gtest/gtest.h>

namespace klock {
namespace {

TEST(Findings, TextInColumns) {
  EXPECT_EQ(findings_text({{Severity::ok, "eviction", "noeviction", ""},
                           {Severity::unknown, "round trip", "x", ""},
                           {Severity::warning, "a", "b", "c"},
                           {Severity::danger, "role", "replica", "the master"}}),
            "OK       eviction    noeviction\n"
            "UNKNOWN  round trip  x\n"
            "WARNING  a           b; remedy: c\n"
            "DANGER   role        replica; remedy: the master\n");
  EXPECT_EQ(findings_text({}), "");
}

TEST(Findings, ForeignTextIsEscaped) {
  const std::vector<Finding> findings{{Severity::ok, "server", "\x1b]0;x\n\xff", "\r"}};
  EXPECT_EQ(findings_text(findings), "OK       server  \\x1B]0;x\\x0A\\xFF; remedy: \\x0D\n");
  for (const char c : findings_json(findings)) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < '\x7f'));
}

TEST(Findings, Json) {
  EXPECT_EQ(
      findings_json({{Severity::danger, "role", "\"r\"", ""}}),
      "[\n  {\n    \"severity\": \"danger\",\n    \"subject\": \"role\",\n    \"what\": \"\\\"r\\\"\",\n"
      "    \"remedy\": null\n  }\n]\n");
  EXPECT_EQ(findings_json({}), "[]\n");
}

TEST(Findings, TheWorst) {
  EXPECT_EQ(worst_of({}), Severity::ok);
  EXPECT_EQ(worst_of({{Severity::warning, "", ""}, {Severity::unknown, "", ""}}), Severity::warning);
}

TEST(DirectoryDoctor, Rights) {
  struct stat info {};
  info.st_gid = 100;
  const auto severity = [&](mode_t mode, gid_t group) {
    info.st_mode = S_IFDIR | mode;
    return judge_rights(info, group).severity;
  };
  EXPECT_EQ(severity(0700, 1), Severity::ok);
  EXPECT_EQ(severity(0777, 1), Severity::warning);
  EXPECT_EQ(severity(0775, 1), Severity::warning);
  EXPECT_EQ(severity(0775, 100), Severity::ok);
  EXPECT_EQ(severity(02775, 1), Severity::ok);
  EXPECT_EQ(severity(01777, 1), Severity::ok);
}

TEST(DirectoryDoctor, Space) {
  struct statvfs system {};
  system.f_frsize = 4096;
  system.f_bfree = 1000;
  EXPECT_EQ(judge_space(system, false).severity, Severity::danger);
  EXPECT_EQ(judge_space(system, true).severity, Severity::ok);  // what is reserved for root
  system.f_bavail = 10;
  EXPECT_EQ(judge_space(system, false).severity, Severity::warning);
  system.f_bavail = 1000;
  EXPECT_EQ(judge_space(system, false).severity, Severity::ok);  // btrfs counts no files
  system.f_files = 1000;
  EXPECT_EQ(judge_space(system, false).severity, Severity::danger);
  system.f_favail = 50;
  EXPECT_EQ(judge_space(system, false).severity, Severity::warning);
}

}  // namespace
}  // namespace klock
