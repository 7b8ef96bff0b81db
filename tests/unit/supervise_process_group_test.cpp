// SPDX-License-Identifier: MIT
#include "supervise/process_group.hpp"
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace klock::test {
namespace {

// A child in a group of its own that runs `body`.
pid_t leader(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    body();
    _exit(0);
  }
  setpgid(child, child);
  return child;
}

TEST(ProcessGroup, ZombiesAreDead) {
  const pid_t child = leader([] {});
  // A sanitizer's own thread may end later than the first.
  EXPECT_TRUE(eventually([&] { return !ProcessGroup(Scope::own_group, child, child).alive(); }));
  EXPECT_EQ(state_of(child), 'Z');
  waitpid(child, nullptr, 0);
}

TEST(ProcessGroup, AProcessWhoseFirstThreadHasEndedLives) {
  const pid_t child = leader([] {
    pthread_t thread;
    pthread_create(
        &thread, nullptr, [](void*) -> void* { return pause(), nullptr; }, nullptr);
    syscall(SYS_exit, 0);  // of this thread alone
  });
  ASSERT_TRUE(eventually([&] { return state_of(child) == 'Z'; }));
  const ProcessGroup group(Scope::own_group, child, child);
  EXPECT_TRUE(group.alive());
  group.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !group.alive(); }));
  waitpid(child, nullptr, 0);
}

TEST(ProcessGroup, OddNamesAreUnderstood) {
  const pid_t child = leader([] {
    prctl(PR_SET_NAME, "a) Z 1 (b");
    pause();
  });
  ASSERT_TRUE(eventually([&] { return name_of(child) == "a) Z 1 (b"; }));
  const ProcessGroup group(Scope::own_group, child, child);
  EXPECT_TRUE(group.alive());
  group.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !group.alive(); }));
  waitpid(child, nullptr, 0);
}

// A shared group, seen by the guard `body` runs in: its descendants count, its siblings in the same group
// don't.
int in_shared_group(const std::function<int(pid_t group, pid_t sibling)>& guard) {
  const pid_t caller = leader([&] {
    const pid_t group = getpid();
    const pid_t sibling = fork();
    if (sibling == 0) {
      pause();
      _exit(0);
    }
    const pid_t middle = fork();
    if (middle == 0) {
      setpgid(0, 0);
      prctl(PR_SET_CHILD_SUBREAPER, 1);
      _exit(guard(group, sibling));
    }
    int status = 0;
    waitpid(middle, &status, 0);
    const bool sibling_lives = lives(sibling);
    kill(sibling, SIGKILL);
    waitpid(sibling, nullptr, 0);
    _exit(sibling_lives ? WEXITSTATUS(status) : 100);
  });
  int status = 0;
  waitpid(caller, &status, 0);
  return WEXITSTATUS(status);
}

TEST(ProcessGroup, InASharedGroupOnlyDescendantsCount) {
  EXPECT_EQ(in_shared_group([](pid_t group, pid_t) {
              const ProcessGroup before(Scope::shared_group, 0, group);
              if (before.alive()) return 1;
              // A command whose child outlives it: an orphan is a descendant still.
              const pid_t command = fork();
              if (command == 0) {
                setpgid(0, group);
                if (fork() == 0) pause();
                _exit(0);
              }
              waitpid(command, nullptr, 0);
              const ProcessGroup all(Scope::shared_group, command, group);
              if (!all.alive()) return 2;
              all.signal(SIGTERM);
              return eventually([&] { return !all.alive(); }) ? 0 : 3;
            }),
            0);
}

TEST(ProcessGroup, ContReachesOnlyWhoIsStoppedInASharedGroup) {
  EXPECT_EQ(in_shared_group([](pid_t group, pid_t) {
              const pid_t command = fork();
              if (command == 0) {
                setpgid(0, group);
                signal(SIGCONT, [](int) { _exit(42); });
                for (;;) pause();
              }
              if (!eventually([&] { return getpgid(command) == group && state_of(command) == 'S'; }))
                return 1;
              const ProcessGroup all(Scope::shared_group, command, group);
              all.signal(SIGCONT);
              if (eventually([&] { return !lives(command); }, 200)) return 2;
              kill(command, SIGSTOP);
              if (!eventually([&] { return state_of(command) == 'T'; })) return 3;
              all.signal(SIGCONT);
              int status = 0;
              waitpid(command, &status, 0);
              return WEXITSTATUS(status) == 42 ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace klock::test
