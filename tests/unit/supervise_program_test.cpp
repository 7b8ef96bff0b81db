// SPDX-License-Identifier: MIT
#include "supervise/program.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace klock {
namespace {

class FindProgram : public testing::Test {
 protected:
  void SetUp() override { before_ = std::getenv("PATH"); }
  void TearDown() override { setenv("PATH", before_.c_str(), 1); }

  std::string make(const std::string& directory, const std::string& name, mode_t mode) {
    mkdir(scratch_.file(directory).c_str(), 0755);
    const std::string path = scratch_.file(directory) + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string found(const std::string& name) {
    const auto result = find_program(name);
    const auto* path = std::get_if<std::string>(&result);
    return path != nullptr ? *path : "errno " + std::to_string(std::get<ProgramMissing>(result).error);
  }
  static std::string error(int code) { return "errno " + std::to_string(code); }

  test::ScratchDirectory scratch_;
  std::string before_;
};

TEST_F(FindProgram, TakesTheFirstInPath) {
  const std::string one = make("one", "tool", 0755);
  make("two", "tool", 0755);
  setenv("PATH", (scratch_.file("none") + ":" + scratch_.file("one") + ":" + scratch_.file("two")).c_str(),
         1);
  EXPECT_EQ(found("tool"), one);
}

TEST_F(FindProgram, PassesOverWhatIsNotExecutable) {
  make("one", "tool", 0644);
  const std::string two = make("two", "tool", 0755);
  setenv("PATH", (scratch_.file("one") + ":" + scratch_.file("two")).c_str(), 1);
  EXPECT_EQ(found("tool"), two);
  setenv("PATH", scratch_.file("one").c_str(), 1);
  EXPECT_EQ(found("tool"), error(EACCES));
}

TEST_F(FindProgram, TellsMissingFromForbidden) {
  EXPECT_EQ(found("no-such-program-anywhere"), error(ENOENT));
  EXPECT_EQ(found("/no/such/program"), error(ENOENT));
  EXPECT_EQ(found(""), error(ENOENT));
  EXPECT_EQ(found("/etc/passwd"), error(EACCES));
  EXPECT_EQ(found("/etc"), error(EACCES));
  EXPECT_EQ(found("/etc/passwd/x"), error(ENOTDIR));
}

TEST_F(FindProgram, AnEmptyElementIsTheWorkingDirectory) {
  make("one", "tool", 0755);
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(chdir(scratch_.file("one").c_str()), 0);
  setenv("PATH", "/nowhere:", 1);
  EXPECT_EQ(found("tool"), "./tool");
  ASSERT_EQ(chdir(before.c_str()), 0);
}

TEST_F(FindProgram, WithoutPathLooksInTheUsualPlaces) {
  unsetenv("PATH");
  EXPECT_EQ(found("sh"), "/bin/sh");
}

}  // namespace
}  // namespace klock
