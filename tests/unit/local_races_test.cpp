// SPDX-License-Identifier: MIT
#include "support/local_fixture.hpp"

namespace klock::test {
namespace {

// Short holds by many processes, so that closing, unlinking, queueing and reopening meet in every order.
TEST_F(LocalStoreTest, ShortHoldsNeverOverlap) {
  constexpr int k_processes = 8;
  constexpr int k_holds = 500;
  std::vector<Child> children;
  for (int p = 0; p < k_processes; ++p) {
    children.emplace_back([&, p](Line& line) {
      auto locks = store();
      for (int i = 0; i < k_holds; ++i) {
        auto session = locks->session(claim_of("x", "p" + std::to_string(p)));
        if (!wait_for_lock(*session)) {
          ADD_FAILURE() << "not acquired";
          break;
        }
        be_inside(i % 3 == 0);
        EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
      }
      line.say('d');
    });
  }
  expect_all_done(children);
}

// Nobody waits, so that the file is made and unlinked all the time.
TEST_F(LocalStoreTest, RacesForAFreeLockNeverOverlap) {
  std::vector<Child> children;
  for (int p = 0; p < 4; ++p) {
    children.emplace_back([&](Line& line) {
      auto locks = store();
      for (int i = 0; i < 4000; ++i) {
        auto session = locks->session(claim_of("x", "me"));
        const auto attempt = session->attempt(false, soon(), {});
        EXPECT_TRUE(attempt);
        if (!attempt || !std::holds_alternative<Lease>(*attempt)) continue;
        be_inside(false);
        EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
      }
      line.say('d');
    });
  }
  expect_all_done(children);
}

// The same with processes killed at any moment: the others go on, nothing overlaps.
TEST_F(LocalStoreTest, SurvivesKillsAtAnyMoment) {
  const std::string inside = root_ + "/inside";
  const auto worker = [&] {
    return Child([&](Line& line) {
      auto locks = store();
      // A killed process leaves this before the lock: the kernel closes descriptors in ascending order.
      const Fd fd(open(inside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      struct flock lock {};
      for (int i = 0; i < 300; ++i) {
        auto session = locks->session(claim_of("x", "w"));
        if (!wait_for_lock(*session)) return;
        lock.l_type = F_WRLCK;
        EXPECT_EQ(fcntl(fd.get(), F_SETLK, &lock), 0) << "overlap";
        lock.l_type = F_UNLCK;
        fcntl(fd.get(), F_SETLK, &lock);
        (void)session->release(soon(), {});
        if (i % 7 == 0) (void)locks->session(claim_of("x", "n"))->attempt(false, soon(), {});
      }
      line.say('d');
    });
  };
  std::vector<Child> survivors;
  for (int i = 0; i < 3; ++i) survivors.push_back(worker());
  for (int i = 0; i < 60; ++i) {
    Child victim = worker();
    poll(nullptr, 0, i % 5);
    victim.kill();
  }
  for (Child& child : survivors) {
    EXPECT_EQ(child.line().hear(), 'd');
    EXPECT_EQ(child.join(), 0);
  }
}

}  // namespace
}  // namespace klock::test
