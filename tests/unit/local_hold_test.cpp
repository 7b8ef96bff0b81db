// SPDX-License-Identifier: MIT
#include "support/local_fixture.hpp"

namespace klock::test {
namespace {

TEST_F(LocalStoreTest, AKilledHolderFreesAtOnce) {
  Child first = running_holder("x");
  Child second = queued("x", "second");
  const Instant before = BootClock::now();
  first.kill();
  EXPECT_EQ(second.line().hear(), 'h');
  EXPECT_LT(BootClock::now() - before, seconds(2));
  release_and_join(second);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, ACopyOfTheDescriptorKeepsTheHold) {
  std::array<int, 2> keep{};
  ASSERT_EQ(pipe2(keep.data(), O_CLOEXEC), 0);
  Child first([&](Line& line) {
    close(keep[1]);
    auto locks = store();
    auto session = locks->session(claim_of("x", "first"));
    EXPECT_TRUE(wait_for_lock(*session));
    if (fork() == 0) {  // what the guard does: outlives the holder, has its descriptor
      char c = 0;
      (void)!read(keep[0], &c, 1);
      _exit(0);
    }
    line.say('h');
    line.hear();
  });
  close(keep[0]);
  ASSERT_EQ(first.line().hear(), 'h');
  first.kill();
  EXPECT_TRUE(is_busy("x"));
  close(keep[1]);
  EXPECT_TRUE(eventually([&] { return !is_busy("x"); }));
}

TEST_F(LocalStoreTest, ReleaseFreesThoughACopyOfTheDescriptorIsOpen) {
  for (const bool with_waiter : {false, true}) {
    auto locks = store();
    auto session = locks->session(claim_of("x", "me"));
    ASSERT_TRUE(wait_for_lock(*session));
    std::optional<Child> waiter;
    if (with_waiter) waiter.emplace(queued("x", "waiter"));
    const Fd copy(fcntl(session->hold_fd(), F_DUPFD_CLOEXEC, 0));
    EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
    if (with_waiter) {
      EXPECT_EQ(waiter->line().hear(), 'h');
      release_and_join(*waiter);
    }
    EXPECT_FALSE(is_busy("x"));
  }
}

TEST_F(LocalStoreTest, TheGuardTidiesUpAfterAKilledHolder) {
  Child first = running_holder("x", "first");
  auto locks = store();
  auto will = locks->session(claim_of("x", "first"));
  first.kill();
  EXPECT_EQ(files().size(), 1U);
  EXPECT_EQ(will->release(soon(), {}).value(), Released::done);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, TheGuardsTidyingLeavesTheNextHolderAlone) {
  Child next = running_holder("x", "next");
  auto locks = store();
  EXPECT_EQ(locks->session(claim_of("x", "first"))->release(soon(), {}).value(), Released::not_mine);
  EXPECT_TRUE(is_busy("x"));
  EXPECT_EQ(files().size(), 1U);
  release_and_join(next);
}

// Nobody is left to write that the holder has gone: the kernel tells.
TEST_F(LocalStoreTest, AKilledHolderLeavesItsHoldToThoseWhoHaveJoined) {
  const auto inside = [](const std::string& token, const std::vector<Claim>& around) {
    Claim claim = claim_of("x", token);
    for (const Claim& one : around) claim.ancestors.push_back(one.token);
    return claim;
  };
  const auto lease_of = [](LockSession& session) {
    const auto attempt = session.attempt(false, soon(), {}).value();
    return std::holds_alternative<Lease>(attempt) ? std::optional(std::get<Lease>(attempt)) : std::nullopt;
  };
  const Claim outer = claim_of("x", "first");
  const Claim claim = inside("inner", {outer});
  Child first = running_holder("x", "first");
  Child waiter = queued("x", "waiter");
  auto locks = store();
  auto inner = locks->session(claim);
  ASSERT_TRUE(lease_of(*inner));
  first.kill();
  EXPECT_EQ(locks->session(outer)->release(soon(), {}).value(), Released::done) << "the guard's last will";
  EXPECT_TRUE(eventually(
      [&] { return std::holds_alternative<Gone>(locks->session(outer)->confirm(soon(), {}).value()); }));
  // The waiter takes the byte, finds the run inside, and writes it down: until then one more may join.
  const auto file = LockFile::open(file_of("x"), LockFile::Open::look).value();
  EXPECT_TRUE(eventually([&] { return read_hold(*file).value().left; }));
  EXPECT_FALSE(lease_of(*locks->session(inside("late", {outer}))));
  EXPECT_EQ(state_of("x").holders.at(0).id, outer.token.id());
  auto deeper = locks->session(inside("deeper", {outer, claim}));
  ASSERT_TRUE(lease_of(*deeper));
  EXPECT_EQ(inner->release(soon(), {}).value(), Released::done);
  EXPECT_FALSE(waiter.line().heard_anything());
  EXPECT_EQ(deeper->release(soon(), {}).value(), Released::done);
  EXPECT_EQ(waiter.line().hear(), 'h');
  release_and_join(waiter);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, AReleaseOnTopOfAForcedOneLeavesThatToThoseWhoHaveJoined) {
  Claim outer = claim_of("x", "first");
  auto locks = store();
  auto mine = locks->session(outer);
  ASSERT_TRUE(wait_for_lock(*mine));
  Claim claim = claim_of("x", "inner");
  claim.ancestors = {outer.token};
  auto inner = locks->session(claim);
  ASSERT_TRUE(wait_for_lock(*inner));
  const Holder shown = state_of("x").holders.at(0);
  EXPECT_EQ(locks->ask_stop(lock_named("x"), shown, {"root@here", "r"}, soon()).value(), Eviction::done);
  outer.by_token = true;
  EXPECT_FALSE(locks->session(outer)->release(BootClock::now() + milliseconds(20), {})) << "nobody obeys";
  const auto told = std::get<Renewed>(mine->renew(soon(), {}).value());
  ASSERT_TRUE(told.stop);
  EXPECT_TRUE(told.stop->released);
  EXPECT_EQ(inner->await_news(soon(), {}).value(), Wake::news);
  const auto stopped = std::get<Renewed>(inner->renew(soon(), {}).value());
  ASSERT_TRUE(stopped.stop);
  EXPECT_FALSE(stopped.stop->released);
  EXPECT_EQ(stopped.stop->reason, "r");
}

TEST_F(LocalStoreTest, ARemovedFileIsGone) {
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  ASSERT_TRUE(wait_for_lock(*session));
  EXPECT_TRUE(std::holds_alternative<Renewed>(session->renew(soon(), {}).value()));
  Child remover([&](Line& line) {
    line.hear();
    EXPECT_EQ(unlink(file_of("x").c_str()), 0);
  });
  // With the watch in place already, then removed while asleep.
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(10), {}).value(), Wake::timeout);
  remover.line().say('x');
  EXPECT_EQ(session->await_news(soon(), {}).value(), Wake::news);
  EXPECT_TRUE(std::holds_alternative<Gone>(session->renew(soon(), {}).value()));
  EXPECT_FALSE(is_busy("x"));
  EXPECT_EQ(session->release(soon(), {}).value(), Released::gone);
}

TEST_F(LocalStoreTest, AReplacedFileIsGoneAndLeftAlone) {
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  ASSERT_TRUE(wait_for_lock(*session));
  ASSERT_EQ(rename(file_of("x").c_str(), (root_ + "/elsewhere").c_str()), 0);
  Child other = running_holder("x");
  EXPECT_EQ(session->await_news(soon(), {}).value(), Wake::news);
  EXPECT_TRUE(std::holds_alternative<Gone>(session->renew(soon(), {}).value()));
  EXPECT_EQ(session->release(soon(), {}).value(), Released::gone);
  EXPECT_TRUE(is_busy("x"));
  release_and_join(other);
}

TEST_F(LocalStoreTest, AStopReachesTheHolderItIsMeantFor) {
  auto locks = store();
  auto session = locks->session(claim_of("x", "meant"));
  ASSERT_TRUE(wait_for_lock(*session));
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(10), {}).value(), Wake::timeout);
  Holder wrong = state_of("x").holders.at(0);
  wrong.id = "somebodyelse";
  EXPECT_EQ(store()->ask_stop(lock_named("x"), wrong, {"root@here", "r"}, soon()).value(), Eviction::changed);
  EXPECT_EQ(store()->remove(lock_named("x"), wrong, {"root@here", "r"}, soon()).value(), Eviction::changed);
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(10), {}).value(), Wake::timeout);

  Child admin([&](Line&) {
    const Holder shown = state_of("x").holders.at(0);
    const auto asked =
        store()->ask_stop(lock_named("x"), shown, {"root@here", "maintenance \"now\"\n"}, soon());
    EXPECT_TRUE(asked && *asked == Eviction::done);
  });
  EXPECT_EQ(session->await_news(soon(), {}).value(), Wake::news);
  const auto renewal = session->renew(soon(), {});
  ASSERT_TRUE(renewal);
  const auto& renewed = std::get<Renewed>(*renewal);
  ASSERT_TRUE(renewed.stop);
  EXPECT_EQ(renewed.stop->by, "root@here");
  EXPECT_EQ(renewed.stop->reason, "maintenance \"now\"\n");
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(10), {}).value(), Wake::timeout);
  EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
  EXPECT_EQ(store()->ask_stop(lock_named("x"), wrong, {}, soon()).value(), Eviction::gone);
  EXPECT_EQ(store()->remove(lock_named("x"), wrong, {}, soon()).value(), Eviction::gone);
}

TEST_F(LocalStoreTest, ArrivingWaitersDoNotWakeTheHolder) {
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  ASSERT_TRUE(wait_for_lock(*session));
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(10), {}).value(), Wake::timeout);
  Child waiter = queued("x", "waiter");
  EXPECT_EQ(session->await_news(BootClock::now() + milliseconds(50), {}).value(), Wake::timeout);
}

TEST_F(LocalStoreTest, RemovalTellsTheHolderAndWaitersFollowInOrder) {
  Child first([&](Line& line) {
    auto locks = store();
    auto session = locks->session(claim_of("x", "first"));
    EXPECT_TRUE(wait_for_lock(*session));
    line.say('h');
    EXPECT_EQ(session->await_news(soon(), {}).value(), Wake::news);
    const auto renewal = session->renew(soon(), {});
    EXPECT_TRUE(renewal && std::holds_alternative<Gone>(*renewal));
    EXPECT_TRUE(renewal && std::get<Gone>(*renewal).removed &&
                std::get<Gone>(*renewal).removed->by == "root@here");
    line.say('g');
    line.hear();
  });
  ASSERT_EQ(first.line().hear(), 'h');
  std::vector<Child> waiters;
  for (int i = 0; i < 4; ++i) waiters.push_back(queued("x", "waiter" + std::to_string(i)));
  const Holder shown = state_of("x").holders.at(0);
  EXPECT_EQ(store()->remove(lock_named("x"), shown, {"root@here", "stuck"}, soon()).value(), Eviction::done);
  EXPECT_EQ(first.line().hear(), 'g');
  for (Child& waiter : waiters) {
    ASSERT_EQ(waiter.line().hear(), 'h');
    for (const Child& other : waiters) EXPECT_TRUE(&other <= &waiter || !other.line().heard_anything());
    release_and_join(waiter);
  }
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

TEST_F(LocalStoreTest, WaitersFollowAlsoWhenTheRemovedHolderCameFromTheQueue) {
  Child first = running_holder("x", "first");
  Child second = queued("x", "second");
  Child third = queued("x", "third");
  Child fourth = queued("x", "fourth");
  release_and_join(first);
  ASSERT_EQ(second.line().hear(), 'h');
  second.stop();  // hung: it will not help
  EXPECT_EQ(unlink(file_of("x").c_str()), 0);
  ASSERT_EQ(third.line().hear(), 'h');
  EXPECT_FALSE(fourth.line().heard_anything());
  release_and_join(third);
  ASSERT_EQ(fourth.line().hear(), 'h');
  release_and_join(fourth);
}

TEST_F(LocalStoreTest, ALockWonInARemovedFileDoesNotCount) {
  auto locks = store();
  auto first = locks->session(claim_of("x", "first"));
  auto second = locks->session(claim_of("x", "second"));
  ASSERT_TRUE(wait_for_lock(*first));
  ASSERT_TRUE(std::holds_alternative<Busy>(second->attempt(true, soon(), {}).value()));
  EXPECT_EQ(unlink(file_of("x").c_str()), 0);
  EXPECT_EQ(first->release(soon(), {}).value(), Released::gone);
  ASSERT_TRUE(wait_for_lock(*second));
  struct stat info {};
  ASSERT_EQ(fstat(second->hold_fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 1U);
  EXPECT_TRUE(is_busy("x"));
  EXPECT_EQ(second->release(soon(), {}).value(), Released::done);
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace klock::test
