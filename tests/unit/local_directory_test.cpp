// SPDX-License-Identifier: MIT
#include "support/local_fixture.hpp"

namespace klock::test {
namespace {

TEST_F(LocalStoreTest, UnusableDirectoriesAreNamed) {
  { const Fd fd(open(directory_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
  auto attempt = attempt_once("x");
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::system);
  EXPECT_NE(attempt.error().what.find(directory_), std::string::npos);

  directory_ = root_ + "/no/such";
  attempt = attempt_once("x");
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::system);
  EXPECT_NE(attempt.error().what.find(directory_), std::string::npos);
}

TEST_F(LocalStoreTest, ADirectoryWithoutPermissionIsRefused) {
  ASSERT_EQ(mkdir(directory_.c_str(), 0555), 0);
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  Child other([&](Line&) {
    // Root may write anywhere.
    EXPECT_TRUE(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    const auto attempt = attempt_once("x");
    EXPECT_FALSE(attempt);
    if (attempt) return;
    EXPECT_EQ(attempt.error().kind, ErrorKind::refused);
    EXPECT_NE(attempt.error().what.find(directory_), std::string::npos);
  });
  EXPECT_EQ(other.join(), 0);
}

TEST_F(LocalStoreTest, TheDefaultDirectoryMustBeOursAlone) {
  Child other([&](Line&) {
    if (geteuid() == 0) {
      EXPECT_EQ(chown(root_.c_str(), 65534, 65534), 0);
      EXPECT_EQ(setresuid(65534, 65534, 65534), 0);
    }
    setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
    const std::string directory = root_ + "/klock";
    const auto kind = [] {
      auto locks = open_local_store("", "klock:");
      auto session = locks->session(claim_of("x", "me"));
      const auto attempt = session->attempt(false, soon(), {});
      return attempt ? std::optional<ErrorKind>() : attempt.error().kind;
    };
    EXPECT_EQ(kind(), std::nullopt);
    struct stat info {};
    EXPECT_EQ(stat(directory.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700U);
    chmod(directory.c_str(), 0777);
    EXPECT_EQ(kind(), ErrorKind::refused);
    chmod(directory.c_str(), 0700);
    EXPECT_EQ(rename(directory.c_str(), (root_ + "/real").c_str()), 0);
    EXPECT_EQ(symlink((root_ + "/real").c_str(), directory.c_str()), 0);
    EXPECT_EQ(kind(), ErrorKind::refused);
  });
  EXPECT_EQ(other.join(), 0);
}

}  // namespace
}  // namespace klock::test
