// SPDX-License-Identifier: MIT
#include "output/message.hpp"

#include "output/human_time.hpp"
#include "util/wall_time.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <functional>

namespace klock {
namespace {

using namespace std::chrono_literals;

// What `speak` writes to stderr, one element per write(2).
std::vector<std::string> heard(const std::function<void()>& speak) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  speak();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[1]);
  std::vector<std::string> writes;
  std::array<char, 8192> buffer{};
  for (;;) {
    const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
    if (count <= 0) break;
    writes.emplace_back(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  return writes;
}

using Writes = std::vector<std::string>;

TEST(Messenger, WritesOneLineAtATime) {
  EXPECT_EQ(heard([] { Messenger(0).tell("x: busy"); }), Writes{"klock: x: busy\n"});
  EXPECT_EQ(heard([] { Messenger(0).usage("a\nb\x1b[2J"); }), Writes{"klock: a\\x0Ab\\x1B[2J\n"});
}

TEST(Messenger, RespectsVerbosity) {
  const auto all = [](int verbosity) {
    return heard([=] {
      Messenger(verbosity).usage("u");
      Messenger(verbosity).tell("t");
      Messenger(verbosity).explain("e");
    });
  };
  EXPECT_EQ(all(-1), (Writes{"klock: u\n"}));
  EXPECT_EQ(all(0), (Writes{"klock: u\n", "klock: t\n"}));
  EXPECT_EQ(all(1), (Writes{"klock: u\n", "klock: t\n", "klock: e\n"}));
}

TEST(Messenger, SurvivesAClosedStderr) {
  const int saved = ::dup(STDERR_FILENO);
  ::close(STDERR_FILENO);
  Messenger(0).tell("nobody hears this");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  SUCCEED();
}

TEST(Messenger, LeavesNoSigpipeBehind) {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigset_t before;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &pipe, &before), 0);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  Messenger(0).tell("nobody reads this");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[1]);
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(About, LeavesOutEmptyParts) {
  EXPECT_EQ(about("n", "busy", "redis://h", "use -w"), "n: busy (redis://h); use -w");
  EXPECT_EQ(about("n", "busy", "", ""), "n: busy");
  EXPECT_EQ(about("", "busy", "redis://h", ""), "busy (redis://h)");
  EXPECT_EQ(about("n", "", "", "hint"), "n; hint");
  EXPECT_EQ(about("n", Error{ErrorKind::usage, "what", "hint"}, "s"), "n: what (s); hint");
  EXPECT_EQ(about("n\n", "a\x1b", "", ""), "n\\x0A: a\\x1B");
}

class Described : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    holder.who = {"root", "db1", 123, "import.sh", "do not disturb", ""};
    holder.since_wall_ms = 1'795'974'780'000;  // 2026-11-29 17:53:00 UTC
    holder.held = 12s;
  }
  Holder holder;
};

TEST_F(Described, InFull) {
  EXPECT_EQ(describe_holder(holder),
            "root@db1 pid 123 (import.sh) since 2026-11-29 17:53:00 (12s): do not disturb");
}

TEST_F(Described, WithUnknownPartsLeftOut) {
  holder.who = {"", "db1", 0, "", "", ""};
  EXPECT_EQ(describe_holder(holder), "someone@db1 since 2026-11-29 17:53:00 (12s)");
  holder.since_wall_ms = 0;
  EXPECT_EQ(describe_holder(holder), "someone@db1 for 12s");
  holder.held.reset();
  holder.who = {"root", "", 7, "", "m", ""};
  EXPECT_EQ(describe_holder(holder), "root pid 7: m");
  EXPECT_EQ(describe_holder(Holder{}), "someone");
}

TEST_F(Described, TimeLeftOfAHoldWithoutAProcess) {
  holder.expires_in = 112min;
  EXPECT_EQ(describe_holder(holder),
            "root@db1 pid 123 (import.sh) since 2026-11-29 17:53:00 (12s): do not disturb");
  holder.who = {"root", "db1", 0, "maintenance", "new disks", ""};
  EXPECT_EQ(describe_holder(holder),
            "root@db1 (maintenance) since 2026-11-29 17:53:00 (12s), 1h52m left: new disks");
}

TEST_F(Described, EscapesWhatOthersWrote) {
  holder.who = {"ro\not", "d\x1b[2Jb", 1, "x\ry", "a\nb\\", ""};
  EXPECT_EQ(describe_holder(holder),
            "ro\\x0Aot@d\\x1B[2Jb pid 1 (x\\x0Dy) since 2026-11-29 17:53:00 (12s): a\\x0Ab\\\\");
}

TEST_F(Described, AbsurdTimes) {
  holder.since_wall_ms = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(describe_holder(holder), "root@db1 pid 123 (import.sh) for 12s: do not disturb");
  holder.since_wall_ms = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(describe_holder(holder), "root@db1 pid 123 (import.sh) for 12s: do not disturb");
}

TEST_F(Described, Foreign) {
  holder.foreign = true;
  holder.what = "string \"a\nb\"";
  EXPECT_EQ(describe_holder(holder), "another client (string \"a\\x0Ab\")");
  holder.what.clear();
  EXPECT_EQ(describe_holder(holder), "another client");
}

TEST(HumanDuration, TwoUnits) {
  EXPECT_EQ(human_duration(0ms), "0s");
  EXPECT_EQ(human_duration(-5s), "0s");
  EXPECT_EQ(human_duration(340ms), "340ms");
  EXPECT_EQ(human_duration(12'999ms), "12s");
  EXPECT_EQ(human_duration(65s), "1m05s");
  EXPECT_EQ(human_duration(62min), "1h02m");
  EXPECT_EQ(human_duration(76h), "3d04h");
  EXPECT_FALSE(human_duration(Milliseconds::max()).empty());
  EXPECT_EQ(human_duration(Milliseconds::min()), "0s");
}

TEST(UtcTime, HasMilliseconds) {
  EXPECT_EQ(utc_time(1'795'974'780'123), "2026-11-29T17:53:00.123Z");
  EXPECT_EQ(utc_time(-1), "");
  EXPECT_EQ(utc_time(std::numeric_limits<std::int64_t>::max()), "");
}

}  // namespace
}  // namespace klock
