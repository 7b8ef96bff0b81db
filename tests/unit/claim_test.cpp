// SPDX-License-Identifier: MIT
#include "lease/claim.hpp"

#include "lease/hold_mark.hpp"
#include "util/random.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

namespace klock {
namespace {

// Of this boot and namespace, as we are.
Person somebody_gone() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  Person gone = describe_self("x", "");
  gone.pid = child;
  return gone;
}

TEST(Claims, TokensAreDistinctAndTheIdKeepsMostOfThemSecret) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(*random_hex128());
  EXPECT_EQ(seen.size(), 1000u);
  const Token token{*seen.begin()};
  EXPECT_EQ(token.value.size(), 32u);
  EXPECT_EQ(token.id().size(), 12u);
}

TEST(Claims, DescribesThisProcess) {
  const Person self = describe_self("import", std::string(5000, 'm'));
  EXPECT_EQ(self.pid, getpid());
  EXPECT_FALSE(self.host.empty());
  EXPECT_FALSE(self.user.empty());
  EXPECT_FALSE(self.origin.empty());
  EXPECT_EQ(self.message.size(), 1000u);
  if (geteuid() == 0) {
    EXPECT_EQ(self.user, "root");
  }
}

TEST(Claims, OnlyAProcessOfThisBootAndNamespaceCanBeProvenDead) {
  const Person gone = somebody_gone();
  EXPECT_TRUE(provably_dead(gone, "no-such-lock", "0123456789ab"));
  Person elsewhere = gone;
  elsewhere.origin = "other";
  EXPECT_FALSE(provably_dead(elsewhere, "no-such-lock", "0123456789ab"));
  Person unknown = gone;
  unknown.origin.clear();
  EXPECT_FALSE(provably_dead(unknown, "no-such-lock", "0123456789ab"));
  EXPECT_FALSE(provably_dead(describe_self("x", ""), "no-such-lock", "0123456789ab"));
}

TEST(Claims, WhoCannotLookProvesNothing) {
  const Person gone = somebody_gone();
  ASSERT_TRUE(provably_dead(gone, "no-such-lock", "0123456789ab"));
  const pid_t without_descriptors = fork();
  if (without_descriptors == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    _exit(provably_dead(gone, "no-such-lock", "0123456789ab") ? 1 : 0);
  }
  int status = -1;
  waitpid(without_descriptors, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Claims, ADescendantWithTheTokenKeepsAHoldAlive) {
  const Person who = somebody_gone();
  for (const char* variable : {"KLOCK_TOKEN=feedfacefeed0000", "KLOCK_HELD=123412341234 feedfacefeed0000"}) {
    const pid_t orphan = fork();
    if (orphan == 0) {
      const char* const environment[] = {variable, nullptr};
      const char* const argv[] = {"sleep", "30", nullptr};
      execve("/bin/sleep", const_cast<char* const*>(argv), const_cast<char* const*>(environment));
      _exit(1);
    }
    const Instant limit = BootClock::now() + std::chrono::seconds(5);
    while (provably_dead(who, "no-such-lock", "feedfacefeed") && BootClock::now() < limit)
      usleep(1000);  // until it has exec'd
    EXPECT_FALSE(provably_dead(who, "no-such-lock", "feedfacefeed")) << variable;
    EXPECT_TRUE(provably_dead(who, "no-such-lock", "aaaaaaaaaaaa")) << variable;
    kill(orphan, SIGKILL);
    waitpid(orphan, nullptr, 0);
  }
}

TEST(Claims, AProcessThatMarksAHoldKeepsItAlive) {
  const Person who = somebody_gone();
  const std::string id = random_hex128().value().substr(0, 12);  // /proc shows the marks of other tests too
  EXPECT_TRUE(provably_dead(who, "no-such-lock", id));
  Fd mark = mark_hold(id);
  EXPECT_FALSE(provably_dead(who, "no-such-lock", id));
  EXPECT_TRUE(provably_dead(who, "no-such-lock", id.substr(0, 11) + (id.back() == 'a' ? "b" : "a")));
  mark.reset();
  EXPECT_TRUE(provably_dead(who, "no-such-lock", id));
}

}  // namespace
}  // namespace klock
