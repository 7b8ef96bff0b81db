// SPDX-License-Identifier: MIT
#include "support/local_fixture.hpp"

namespace klock::test {
namespace {

TEST_F(LocalStoreTest, LeavesNothingBehind) {
  auto locks = store();
  auto session = locks->session(claim_of("x", "me"));
  const auto attempt = session->attempt(true, soon(), {});
  ASSERT_TRUE(attempt) << attempt.error().what;
  ASSERT_TRUE(std::holds_alternative<Lease>(*attempt));
  EXPECT_EQ(std::get<Lease>(*attempt).deadline, k_never);
  EXPECT_GT(std::get<Lease>(*attempt).fence, 0U);
  EXPECT_GE(session->hold_fd(), 0);
  EXPECT_EQ(files().size(), 1U);
  EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(session->hold_fd(), -1);
  EXPECT_TRUE(session->release(soon(), {}));
}

TEST_F(LocalStoreTest, LookingCreatesNothing) {
  EXPECT_EQ(state_of("x").occupancy, Occupancy::free);
  EXPECT_TRUE(store()->list("", soon(), {}).value().empty());
  EXPECT_EQ(access(directory_.c_str(), F_OK), -1);
}

TEST_F(LocalStoreTest, BusyTellsWhoHolds) {
  Child other = running_holder("x", "abcdefghijklmnop");
  const auto attempt = attempt_once("x");
  ASSERT_TRUE(attempt);
  const auto& busy = std::get<Busy>(*attempt);
  ASSERT_TRUE(busy.holder);
  EXPECT_EQ(busy.holder->id, "abcdefghijkl");
  EXPECT_EQ(busy.holder->who.user, "tester");
  EXPECT_NE(busy.holder->who.pid, getpid());
  EXPECT_GT(busy.holder->since_wall_ms, 0);
  EXPECT_TRUE(busy.holder->held);
  EXPECT_FALSE(busy.cooldown);
  EXPECT_EQ(state_of("x").occupancy, Occupancy::held);
  EXPECT_TRUE(state_of("x").waiters.empty());
  release_and_join(other);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, TheFenceGrows) {
  std::uint64_t last = 0;
  auto locks = store();
  for (int i = 0; i < 50; ++i) {
    auto session = locks->session(claim_of("x", "me"));
    const auto attempt = session->attempt(false, soon(), {});
    ASSERT_TRUE(attempt);
    EXPECT_GT(std::get<Lease>(*attempt).fence, last);
    last = std::get<Lease>(*attempt).fence;
    if (i % 2 == 0) (void)session->release(soon(), {});
  }
}

TEST_F(LocalStoreTest, MinHoldKeepsTheNameTaken) {
  auto locks = store();
  Claim claim = claim_of("x", "short");
  claim.min_hold = stretched(milliseconds(700));
  auto session = locks->session(claim);
  const Instant before = BootClock::now();
  ASSERT_TRUE(wait_for_lock(*session));
  ASSERT_TRUE(session->count_min_hold(true));
  EXPECT_EQ(state_of("x").occupancy, Occupancy::held);
  EXPECT_EQ(session->release(soon(), {}).value(), Released::done);

  const LockState state = state_of("x");
  EXPECT_EQ(state.occupancy, Occupancy::cooldown);
  ASSERT_EQ(state.holders.size(), 1U);
  EXPECT_EQ(state.holders[0].id, "short0000000");
  ASSERT_TRUE(state.holders[0].expires_in);
  EXPECT_GT(*state.holders[0].expires_in, milliseconds(0));
  const auto attempt = attempt_once("x");
  ASSERT_TRUE(attempt);
  EXPECT_TRUE(std::get<Busy>(*attempt).cooldown);
  EXPECT_NE(std::get<Busy>(*attempt).look_again, k_never);
  EXPECT_EQ(waiters_of("x"), 0U);

  Child second = queued("x", "second");
  Child third = queued("x", "third");
  // Whoever looks whether it is over holds the lock for a moment.
  EXPECT_TRUE(eventually([&] { return state_of("x").occupancy == Occupancy::cooldown; }));
  EXPECT_EQ(second.line().hear(), 'h');
  EXPECT_GE(BootClock::now() - before, claim.min_hold);
  EXPECT_FALSE(third.line().heard_anything());
  release_and_join(second);
  EXPECT_EQ(third.line().hear(), 'h');
  release_and_join(third);
  EXPECT_TRUE(eventually([&] { return files().empty(); }));
}

TEST_F(LocalStoreTest, ACooldownOutlivesAKilledHolderAndEndsByForce) {
  Child first([&](Line& line) {
    auto locks = store();
    Claim claim = claim_of("x", "first");
    claim.min_hold = std::chrono::hours(1);
    auto session = locks->session(claim);
    EXPECT_TRUE(wait_for_lock(*session) && session->count_min_hold(true));
    line.say('h');
    line.hear();
  });
  ASSERT_EQ(first.line().hear(), 'h');
  first.kill();
  EXPECT_TRUE(store()->session(claim_of("x", "first"))->release(soon(), {}));
  const LockState state = state_of("x");
  ASSERT_EQ(state.occupancy, Occupancy::cooldown);
  Child waiter = queued("x", "waiter");
  EXPECT_EQ(store()->ask_stop(lock_named("x"), state.holders.at(0), {"root@here", ""}, soon()).value(),
            Eviction::done);
  EXPECT_EQ(waiter.line().hear(), 'h');
  release_and_join(waiter);
  EXPECT_TRUE(files().empty());
}

// Whoever looks whether the cooldown is over holds the lock for a moment: the order to stop must not be lost
// on it.
TEST_F(LocalStoreTest, ACooldownEndsByForceAlsoWhileSomebodyLooks) {
  auto locks = store();
  Claim claim = claim_of("x", "first");
  claim.min_hold = std::chrono::hours(1);
  {
    auto session = locks->session(claim);
    ASSERT_TRUE(wait_for_lock(*session));
    ASSERT_TRUE(session->count_min_hold(true));
    ASSERT_EQ(session->release(soon(), {}).value(), Released::done);
  }
  const LockState state = state_of("x");
  ASSERT_EQ(state.occupancy, Occupancy::cooldown);
  Child waiter = queued("x", "waiter");
  auto looker = LockFile::open(directory_ + "/" + files().at(0), LockFile::Open::existing);
  ASSERT_TRUE(looker && *looker);
  ASSERT_TRUE(eventually([&] { return (*looker)->try_hold().value(); }));
  EXPECT_EQ(locks->ask_stop(lock_named("x"), state.holders.at(0), {"root@here", ""}, soon()).value(),
            Eviction::done);
  (*looker)->drop_hold();
  EXPECT_EQ(waiter.line().hear(), 'h');
  release_and_join(waiter);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, NamesAreKeptApart) {
  const std::vector<std::string> names{"x",
                                       "x.lock",
                                       "x/y",
                                       "x%2Fy",
                                       "..",
                                       ".",
                                       "a b",
                                       "grün/日本",
                                       "x:q",
                                       std::string(200, 'n'),
                                       std::string(199, '%') + "a",
                                       std::string(199, '%') + "b"};
  auto locks = store();
  std::vector<std::unique_ptr<LockSession>> sessions;
  for (const std::string& name : names) {
    sessions.push_back(locks->session(claim_of(name, "me")));
    const auto attempt = sessions.back()->attempt(false, soon(), {});
    ASSERT_TRUE(attempt) << name << attempt.error().what;
    EXPECT_TRUE(std::holds_alternative<Lease>(*attempt)) << name;
  }
  EXPECT_EQ(files().size(), names.size());
  for (const std::string& file : files()) EXPECT_LE(file.size(), 255U);
  auto states = locks->list("", soon(), {});
  ASSERT_TRUE(states);
  ASSERT_EQ(states->size(), names.size());
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ((*states)[i].lock.name, sorted[i]);
    EXPECT_EQ((*states)[i].lock.key, "klock:" + sorted[i]);
  }
  EXPECT_EQ(locks->list("x*", soon(), {}).value().size(), 5U);
  for (auto& session : sessions) EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalStoreTest, AHugeAndHostileMessageIsCut) {
  auto locks = store();
  Claim claim = claim_of("x", "me");
  claim.who.message = "\x01\"\\\xff" + std::string(100000, '\x02');
  claim.who.program = std::string(100000, 'p');
  auto session = locks->session(claim);
  ASSERT_TRUE(wait_for_lock(*session));
  const Holder holder = state_of("x").holders.at(0);
  EXPECT_EQ(holder.id, "me0000000000");
  EXPECT_EQ(holder.who.message.substr(0, 6), "\x01\"\\\xEF\xBF\xBD");
  EXPECT_LT(holder.who.message.size(), 4096U);
  EXPECT_TRUE(session->release(soon(), {}));
}

TEST_F(LocalStoreTest, ListSkipsWhatIsNoLock) {
  Child holder = running_holder("x");
  ASSERT_EQ(mkdir((directory_ + "/d.lock").c_str(), 0755), 0);
  ASSERT_EQ(mkfifo((directory_ + "/klock:fifo.lock").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/etc/passwd", (directory_ + "/klock:link.lock").c_str()), 0);
  const Fd note(open((directory_ + "/README").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto states = store()->list("", soon(), {});
  ASSERT_TRUE(states) << states.error().what;
  ASSERT_EQ(states->size(), 1U);
  EXPECT_EQ((*states)[0].lock.name, "x");
  for (const char* name : {"fifo", "link"}) {
    const auto attempt = attempt_once(name);
    ASSERT_FALSE(attempt);
    EXPECT_EQ(attempt.error().kind, ErrorKind::refused);
  }
}

TEST_F(LocalStoreTest, AFileWithASecondNameIsNotWrittenTo) {
  ASSERT_EQ(mkdir(directory_.c_str(), 0755), 0);
  const std::string precious = root_ + "/precious";
  { const Fd fd(open(precious.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
  ASSERT_EQ(link(precious.c_str(), file_of("x").c_str()), 0);
  const auto attempt = attempt_once("x");
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().kind, ErrorKind::refused);
  struct stat info {};
  ASSERT_EQ(stat(precious.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
}

TEST_F(LocalStoreTest, DamagedContentChangesNeitherExclusionNorOrder) {
  const std::vector<std::string> contents{
      std::string(),
      std::string(20000, '\xff'),
      "{",
      "[]",
      "null",
      R"({"id":7,"fence":"x","pid":-5})",
      R"({"id":"abc","fence":18446744073709551615,"pid":99999999999,"acquired_ns":-1})",
      R"({"id":"abc","reserved_until_ns":9223372036854775807,"boot_id":7})",
      std::string(5000, '['),
      "{\"id\":\"" + std::string(4090, 'y')};
  for (const std::string& content : contents) {
    Child first = running_holder("x", "first");
    const auto damage = [&] {
      const Fd fd(open(file_of("x").c_str(), O_WRONLY | O_CLOEXEC));
      EXPECT_EQ(ftruncate(fd.get(), 0), 0);
      EXPECT_EQ(pwrite(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    };
    damage();
    EXPECT_TRUE(is_busy("x"));
    Child second = queued("x", "second");
    Child third = queued("x", "third");
    damage();
    EXPECT_EQ(state_of("x").occupancy, Occupancy::held);
    EXPECT_EQ(state_of("x").holders.size(), 1U);
    EXPECT_EQ(waiters_of("x"), 2U);
    EXPECT_EQ(store()->list("", soon(), {}).value().size(), 1U);
    release_and_join(first);
    EXPECT_EQ(second.line().hear(), 'h');
    EXPECT_FALSE(third.line().heard_anything());
    release_and_join(second);
    EXPECT_EQ(third.line().hear(), 'h');
    release_and_join(third);
    EXPECT_TRUE(eventually([&] { return files().empty(); }));
  }
}

TEST_F(LocalStoreTest, ALeftOverFileIsNoObstacle) {
  ASSERT_EQ(mkdir(directory_.c_str(), 0755), 0);
  const Fd fd(open(file_of("x").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(write(fd.get(), "garbage", 7), 7);
  EXPECT_EQ(state_of("x").occupancy, Occupancy::free);
  Child holder = running_holder("x");
  EXPECT_EQ(state_of("x").holders.at(0).who.user, "tester");
  release_and_join(holder);
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace klock::test
