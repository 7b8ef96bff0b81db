// SPDX-License-Identifier: MIT
#include "journal/outcome_file.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

namespace klock {
namespace {

using Json = nlohmann::json;

std::string content_of(const std::string& path) {
  std::string text;
  if (std::FILE* const file = std::fopen(path.c_str(), "r")) {
    std::array<char, 4096> part{};
    text.assign(part.data(), std::fread(part.data(), 1, part.size(), file));
    std::fclose(file);
  }
  return text;
}

class OutcomeFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/klock-outcome-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    directory_ = directory;
    path_ = directory_ + "/outcome.json";
    report_.name = "import";
  }

  void TearDown() override {
    for (const std::string& name : entries()) ::unlink((directory_ + "/" + name).c_str());
    ::rmdir(directory_.c_str());
  }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    DIR* const directory = ::opendir(directory_.c_str());
    while (const dirent* const entry = ::readdir(directory))
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    ::closedir(directory);
    return names;
  }

  Json written() const { return Json::parse(content_of(path_)); }

  std::string directory_;
  std::string path_;
  RunReport report_;
};

TEST_F(OutcomeFile, OfACompletedRun) {
  report_.acquired = true;
  report_.outcome = "completed";
  report_.exit_status = 3;
  report_.command_exit = 3;
  report_.waited_ms = 12;
  report_.held_ms = 345;
  report_.fence = 1'795'974'780'000'000;
  ASSERT_TRUE(write_outcome(path_, report_));
  EXPECT_EQ(written(),
            Json::parse(R"({"name": "import", "acquired": true, "outcome": "completed", "exit_status": 3,
      "command": {"exit": 3}, "waited_ms": 12, "held_ms": 345, "fence": 1795974780000000, "degraded": null,
      "reason": null})"));
}

TEST_F(OutcomeFile, OfARunThatDied) {
  report_.command_signal = "TERM";
  report_.reason = "bad \xff bytes";
  ASSERT_TRUE(write_outcome(path_, report_));
  EXPECT_EQ(written().at("command"), Json::parse(R"({"signal": "TERM"})"));
  EXPECT_EQ(written().at("reason"), "bad \uFFFD bytes");
  EXPECT_TRUE(written().at("fence").is_null());
}

TEST_F(OutcomeFile, ReplacesInOneStepAndLeavesNothingElse) {
  ASSERT_TRUE(write_outcome(path_, report_));
  const int reader = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  report_.name = "second";
  ASSERT_TRUE(write_outcome(path_, report_));
  std::array<char, 4096> old{};
  ASSERT_GT(::read(reader, old.data(), old.size()), 0);
  ::close(reader);
  EXPECT_EQ(Json::parse(old.data()).at("name"), "import");
  EXPECT_EQ(written().at("name"), "second");
  EXPECT_EQ(entries(), std::vector<std::string>{"outcome.json"});
}

TEST_F(OutcomeFile, RespectsTheUmaskAndKeepsAnOldMode) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_outcome(path_, report_));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  EXPECT_EQ(::umask(before), mode_t{027}) << "the umask was changed";
  ::chmod(path_.c_str(), 0600);
  ASSERT_TRUE(write_outcome(path_, report_));
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(OutcomeFile, KeepsASymbolicLink) {
  const std::string link = directory_ + "/link";
  ASSERT_TRUE(write_outcome(path_, report_));
  ASSERT_EQ(::symlink("outcome.json", link.c_str()), 0);
  report_.name = "through the link";
  ASSERT_TRUE(write_outcome(link, report_));
  EXPECT_EQ(written().at("name"), "through the link");
  struct stat status {};
  ASSERT_EQ(::lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
}

TEST_F(OutcomeFile, NeverReplacesStandardErrorThatIsAFile) {
  const int log = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(log, "log\n", 4), 4);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(log, STDERR_FILENO);
  const Status done = write_outcome("/dev/stderr", report_);
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(log);
  ASSERT_TRUE(done);
  EXPECT_EQ(content_of(path_).substr(0, 5), "log\n{");
  EXPECT_EQ(entries(), std::vector<std::string>{"outcome.json"});
}

TEST_F(OutcomeFile, WritesToAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(write_outcome(path_, report_)) << "nobody reads";
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_TRUE(write_outcome(path_, report_));
  std::array<char, 4096> text{};
  ASSERT_GT(::read(reader, text.data(), text.size()), 0);
  ::close(reader);
  EXPECT_EQ(Json::parse(text.data()).at("name"), "import");
}

TEST_F(OutcomeFile, TellsWhatCannotBeWritten) {
  for (const std::string& path : {directory_ + "/none/x", directory_, std::string("/dev/full")}) {
    const Status done = write_outcome(path, report_);
    ASSERT_FALSE(done) << path;
    EXPECT_EQ(done.error().kind, ErrorKind::system);
    EXPECT_NE(done.error().what.find(path), std::string::npos) << done.error().what;
  }
}

}  // namespace
}  // namespace klock
