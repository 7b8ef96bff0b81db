// SPDX-License-Identifier: MIT
#include "store/local/fence_clock.hpp"

#include "support/local_fixture.hpp"
#include "util/procfs.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>

namespace klock::test {
namespace {

constexpr std::int64_t k_second = 1'000'000;
constexpr std::int64_t k_hour = 3600 * k_second;

std::int64_t g_wrong_by = 0;

std::int64_t wrong_wall() {
  return wall_us() + g_wrong_by;
}

template <int hours>
std::int64_t wall_in() {
  return wall_us() + hours * k_hour;
}

class FenceClockTest : public LocalStoreTest {
 protected:
  void SetUp() override {
    LocalStoreTest::SetUp();
    mkdir(directory_.c_str(), 0700);
    g_wrong_by = 0;
  }
  std::int64_t now(FenceClock::Wall wall = wrong_wall) const {
    return static_cast<std::int64_t>(FenceClock(directory_, wall).now_us());
  }
  std::string link_of(const std::string& boot) const { return directory_ + "/.epoch-" + boot; }
  std::string link() const { return link_of(boot_id()); }
  static void put(const std::string& target, const std::string& link) {
    std::filesystem::remove(link);
    ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  }
  std::int64_t kept() const { return std::stoll(std::filesystem::read_symlink(link()).string()); }
  // As it would be if the wall clock had been put back by as much since.
  void put_back(std::int64_t hours) const { put(std::to_string(kept() + hours * k_hour), link()); }
};

void expect_near(std::int64_t a, std::int64_t b) {
  EXPECT_LT(std::abs(a - b), k_hour / 2);
}

TEST_F(FenceClockTest, BeginsWithTheWallClock) {
  const std::int64_t before = wall_us();
  const std::int64_t first = now();
  EXPECT_GE(first, before);
  expect_near(first, before);
  EXPECT_GE(now(), first);
}

TEST_F(FenceClockTest, DoesNotFollowTheWallClock) {
  std::int64_t last = now();
  for (const std::int64_t hours : {-1, 24 * 400, -24 * 400, 0}) {
    g_wrong_by = hours * k_hour;
    const std::int64_t next = now();
    EXPECT_GE(next, last);
    expect_near(next, wall_us());
    last = next;
  }
}

// Each by another wall clock, so that a second opinion would be seen.
TEST_F(FenceClockTest, AllWhoComeAtOnceAgree) {
  for (int round = 0; round < 50; ++round) {
    std::filesystem::remove(link());
    const std::array<FenceClock::Wall, 4> walls{wall_in<-1>, wall_in<0>, wall_in<1>, wall_in<24>};
    std::array<std::int64_t, 4> told{};
    std::atomic<std::size_t> ready = 0;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < walls.size(); ++i)
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < walls.size()) std::this_thread::yield();
        told.at(i) = now(walls.at(i));
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::int64_t one : told) expect_near(one, now());
  }
}

TEST_F(FenceClockTest, NeedsNeitherADescriptorNorAFile) {
  Child child([&](Line&) {
    const FenceClock clock(directory_);
    const rlimit nothing{0, 0};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &nothing), 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &nothing), 0);
    expect_near(static_cast<std::int64_t>(clock.now_us()), wall_us());
  });
  EXPECT_EQ(child.join(), 0);
  g_wrong_by = -k_hour;
  expect_near(now(), wall_us());
}

TEST_F(FenceClockTest, AfterABootItBeginsAnew) {
  put(std::to_string(wall_us() + 24 * k_hour), link_of("01234567-89ab-cdef-0123-456789abcdef"));
  put("somebody else's", link_of("x"));
  expect_near(now(), wall_us());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".epoch-" + boot_id(), ".epoch-x"}));
}

TEST_F(FenceClockTest, WhatIsNoTimeIsLeftAlone) {
  for (const char* target :
       {"x", " 7", "7", "-7", "1795974780123456x", "9007199254740992", "99999999999999999999",
        "1795974780123456 1795974780123456 1795974780123456", "."}) {
    put(target, link());
    expect_near(now(), wall_us());
    EXPECT_EQ(std::filesystem::read_symlink(link()), target);
  }
  std::filesystem::remove(link());
  std::ofstream(link()) << "1795974780123456";
  expect_near(now(), wall_us());
  EXPECT_TRUE(std::filesystem::is_regular_file(link()));
}

TEST_F(FenceClockTest, WaitsForAClockThatHasNeverBeenSet) {
  g_wrong_by = -wall_us();
  EXPECT_LT(now(), k_hour);
  EXPECT_FALSE(std::filesystem::is_symlink(link()));
  g_wrong_by = 0;
  expect_near(now(), wall_us());
  EXPECT_TRUE(std::filesystem::is_symlink(link()));
}

TEST_F(FenceClockTest, WithoutADirectoryItIsTheWallClock) {
  std::filesystem::remove(directory_);
  g_wrong_by = k_hour;
  expect_near(now(), wall_us() + k_hour);
  g_wrong_by = -wall_us() - k_hour;
  EXPECT_EQ(now(), 0);
}

TEST_F(FenceClockTest, EveryKindOfHoldHasItsFenceFromIt) {
  auto locks = store();
  const auto taken = [&](Claim claim) {
    auto session = locks->session(claim);
    const auto attempt = session->attempt(false, soon(), {});
    const std::uint64_t fence = std::get<Lease>(*attempt).fence;
    EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
    EXPECT_TRUE(files().empty()) << "nothing but the link can tell";
    return static_cast<std::int64_t>(fence);
  };
  taken(claim_of("x", "me"));
  put_back(2);
  std::int64_t last = wall_us() + k_hour;
  for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::slots})
    for (const bool detached : {false, true}) {
      Claim claim = claim_of("x", "me");
      claim.mode = mode;
      claim.slots = mode == Mode::slots ? 2 : 0;
      claim.detached = detached;
      claim.ttl = seconds(60);
      const std::int64_t fence = taken(claim);
      EXPECT_GT(fence, last) << mode_name(mode) << detached;
      last = fence;
    }
}

}  // namespace
}  // namespace klock::test
