// SPDX-License-Identifier: MIT
#include "support/local_fixture.hpp"

#include <sys/resource.h>
#include <time.h>

namespace klock::test {
namespace {

TEST_F(LocalStoreTest, ServesInOrderOfArrival) {
  Child first = running_holder("x");
  std::vector<Child> waiters;
  for (int i = 0; i < 20; ++i) waiters.push_back(queued("x", "waiter" + std::to_string(i)));
  auto locks = store();
  auto last = locks->session(claim_of("x", "last"));
  const auto attempt = last->attempt(true, soon(), {});
  ASSERT_TRUE(attempt);
  EXPECT_EQ(std::get<Busy>(*attempt).ahead, 20U);
  last->withdraw(soon());
  EXPECT_EQ(waiters_of("x"), 20U);

  release_and_join(first);
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    ASSERT_EQ(waiters[i].line().hear(), 'h');
    EXPECT_TRUE(is_busy("x"));
    EXPECT_EQ(waiters_of("x"), waiters.size() - i - 1);
    for (std::size_t later = i + 1; later < waiters.size(); ++later)
      EXPECT_FALSE(waiters[later].line().heard_anything());
    release_and_join(waiters[i]);
  }
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

TEST_F(LocalStoreTest, ANewcomerNeverOvertakesAWaiter) {
  Child first = running_holder("x");
  Child second = queued("x", "second");
  second.stop();
  release_and_join(first);
  EXPECT_TRUE(is_busy("x"));
  auto locks = store();
  auto third = locks->session(claim_of("x", "third"));
  const auto attempt = third->attempt(true, soon(), {});
  ASSERT_TRUE(attempt);
  EXPECT_TRUE(std::holds_alternative<Busy>(*attempt));
  second.signal(SIGCONT);
  EXPECT_EQ(second.line().hear(), 'h');
  release_and_join(second);
  EXPECT_TRUE(wait_for_lock(*third));
  EXPECT_EQ(third->release(soon(), {}).value(), Released::done);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, AStoppedWaiterDoesNotKeepTheLockFree) {
  Child first = running_holder("x");
  Child stopped = queued("x", "stopped");
  Child third = queued("x", "third");
  Child fourth = queued("x", "fourth");
  stopped.stop();
  release_and_join(first);
  EXPECT_EQ(third.line().hear(), 'h');
  EXPECT_FALSE(fourth.line().heard_anything());
  Child fifth = queued("x", "fifth");
  const Instant released = BootClock::now();
  release_and_join(third);
  EXPECT_EQ(fourth.line().hear(), 'h');
  // The time of a turn was given once already.
  EXPECT_LT(BootClock::now() - released, std::chrono::milliseconds(1500) * slow_factor());
  stopped.signal(SIGCONT);
  // Until it has shown that it runs again, the fifth need not wait for it.
  auto file = LockFile::open(directory_ + "/" + files().at(0), LockFile::Open::look);
  ASSERT_TRUE(file && *file);
  EXPECT_TRUE(eventually([&] {
    const auto wait = read_wait(**file, 0);
    return wait && !wait->overtaken;
  }));
  EXPECT_TRUE(is_busy("x"));
  EXPECT_FALSE(stopped.line().heard_anything());
  release_and_join(fourth);
  EXPECT_EQ(stopped.line().hear(), 'h');
  release_and_join(stopped);
  EXPECT_EQ(fifth.line().hear(), 'h');
  release_and_join(fifth);
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

TEST_F(LocalStoreTest, WhoWaitsBehindAStoppedWaiterIsNotOvertakenByALaterOne) {
  Child first = running_holder("x");
  std::vector<Child> early;
  for (int i = 0; i < 5; ++i) early.push_back(queued("x", "early" + std::to_string(i)));
  Child stopped = queued("x", "stopped");
  Child waiter = queued("x", "waiter");  // sleeps on the stopped one: it does not see the others go
  stopped.stop();
  release_and_join(first);
  for (Child& child : early) {
    EXPECT_EQ(child.line().hear(), 'h');
    release_and_join(child);
  }
  Child later = queued("x", "later");
  EXPECT_EQ(waiter.line().hear(), 'h');
  EXPECT_FALSE(later.line().heard_anything());
  release_and_join(waiter);
  EXPECT_EQ(later.line().hear(), 'h');
  release_and_join(later);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.line().hear(), 'h');
  release_and_join(stopped);
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Without a descriptor to be told of changes it looks at the file, but now and then.
TEST_F(LocalStoreTest, WhoOvertookAStoppedWaiterSleepsWhileItHolds) {
  Child first = running_holder("x");
  Child second = queued("x", "second");
  Child stopped = queued("x", "stopped");
  Child third([&](Line& line) {
    auto locks = store();
    auto session = locks->session(claim_of("x", "third"));
    EXPECT_TRUE(std::holds_alternative<Busy>(session->attempt(true, soon(), {}).value()));
    line.say('q');
    EXPECT_TRUE(wait_for_lock(*session));
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    const rlimit no_more{static_cast<rlim_t>(Fd(open("/dev/null", O_RDONLY)).get()), files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &no_more);
    const auto before = cpu_time();
    EXPECT_EQ(session->await_news(BootClock::now() + std::chrono::milliseconds(500), {}).value(),
              Wake::timeout);
    EXPECT_LT(cpu_time() - before, std::chrono::milliseconds(250));
    setrlimit(RLIMIT_NOFILE, &files);
    EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
  });
  EXPECT_EQ(third.line().hear(), 'q');
  stopped.stop();
  release_and_join(first);
  EXPECT_EQ(second.line().hear(), 'h');
  release_and_join(second);
  EXPECT_EQ(third.join(), 0);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.line().hear(), 'h');
  release_and_join(stopped);
}

TEST_F(LocalStoreTest, KilledWaitersDelayNobody) {
  Child first = running_holder("x");
  std::vector<Child> waiters;
  for (int i = 0; i < 7; ++i) waiters.push_back(queued("x", "waiter" + std::to_string(i)));
  for (std::size_t i = 0; i < 5; ++i) waiters[i].kill();
  EXPECT_EQ(waiters_of("x"), 2U);
  release_and_join(first);
  EXPECT_EQ(waiters[5].line().hear(), 'h');
  EXPECT_FALSE(waiters[6].line().heard_anything());
  release_and_join(waiters[5]);
  EXPECT_EQ(waiters[6].line().hear(), 'h');
  release_and_join(waiters[6]);
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

TEST_F(LocalStoreTest, WaitersKilledBehindAHolderFromTheQueueDelayNobody) {
  Child first = running_holder("x");
  Child second = queued("x", "second");
  Child third = queued("x", "third");
  Child fourth = queued("x", "fourth");
  release_and_join(first);
  EXPECT_EQ(second.line().hear(), 'h');
  third.kill();
  // Fourth wakes for third's death and goes to sleep on second's ticket.
  EXPECT_EQ(waiters_of("x"), 1U);
  EXPECT_FALSE(fourth.line().heard_anything());
  second.kill();
  EXPECT_EQ(fourth.line().hear(), 'h');
  release_and_join(fourth);
}

TEST_F(LocalStoreTest, WithdrawingLeavesNothing) {
  Child first = running_holder("x");
  auto locks = store();
  {
    auto session = locks->session(claim_of("x", "me"));
    ASSERT_TRUE(std::holds_alternative<Busy>(session->attempt(true, soon(), {}).value()));
    EXPECT_EQ(waiters_of("x"), 1U);
    session->withdraw(soon());
    EXPECT_EQ(waiters_of("x"), 0U);
    ASSERT_TRUE(std::holds_alternative<Busy>(session->attempt(true, soon(), {}).value()));
    EXPECT_EQ(waiters_of("x"), 1U);
  }
  EXPECT_EQ(waiters_of("x"), 0U);
  release_and_join(first);
  EXPECT_FALSE(is_busy("x"));
}

TEST_F(LocalStoreTest, WithdrawingGivesAGrantedLockOn) {
  Child first = running_holder("x");
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  ASSERT_TRUE(std::holds_alternative<Busy>(session->attempt(true, soon(), {}).value()));
  Child third = queued("x", "third");
  release_and_join(first);
  EXPECT_EQ(session->await_news(soon(), {}).value(), Wake::news);
  EXPECT_FALSE(third.line().heard_anything());
  session->withdraw(soon());
  EXPECT_EQ(third.line().hear(), 'h');
  release_and_join(third);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, WaitingEndsAtOnceWhenInterrupted) {
  Child first = running_holder("x");
  std::array<int, 2> raised{};
  ASSERT_EQ(pipe2(raised.data(), O_CLOEXEC), 0);
  const Fd reader(raised[0]);
  const Fd writer(raised[1]);
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  ASSERT_TRUE(std::holds_alternative<Busy>(session->attempt(true, soon(), {}).value()));
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(20), Interrupt{reader.get()}).value(),
            Wake::timeout);
  ASSERT_EQ(write(writer.get(), "x", 1), 1);
  EXPECT_EQ(session->await_news(soon(), Interrupt{reader.get()}).value(), Wake::interrupted);
}

}  // namespace
}  // namespace klock::test
