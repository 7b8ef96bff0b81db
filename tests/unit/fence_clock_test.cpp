// SPDX-License-Identifier: MIT
#include "store/local/fence_clock.hpp"

#include "store/local/records.hpp"
#include "support/local_fixture.hpp"
#include "util/clock.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>
#include <sstream>

namespace klock::test {
namespace {

constexpr std::uint64_t k_second = 1'000'000;
constexpr std::uint64_t k_hour = 3600 * k_second;

class FenceClockTest : public LocalStoreTest {
 protected:
  void SetUp() override {
    LocalStoreTest::SetUp();
    mkdir(directory_.c_str(), 0700);
  }
  std::uint64_t now() const { return FenceClock(directory_, 0600).now_us(); }
  static std::uint64_t wall() { return static_cast<std::uint64_t>(wall_us()); }
  std::string kept() const {
    std::ifstream file(directory_ + "/.clock");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void keep(const std::string& text) const { std::ofstream(directory_ + "/.clock") << text; }
  // As it would be if the wall clock had been put back by `hours` meanwhile.
  void put_back(std::uint64_t hours) const {
    const std::string text = kept();
    const std::size_t space = text.find(' ');
    keep(text.substr(0, space) + " " + std::to_string(std::stoull(text.substr(space)) + hours * k_hour) +
         "\n");
  }
};

TEST_F(FenceClockTest, BeginsWithTheWallClock) {
  const std::uint64_t before = wall();
  const std::uint64_t first = now();
  EXPECT_GE(first + k_second, before);
  EXPECT_LE(first, wall() + k_second);
  EXPECT_GE(now(), first);
}

TEST_F(FenceClockTest, AFenceDoesNotGoBackWithTheWallClock) {
  auto locks = store();
  const auto taken = [&] {
    auto session = locks->session(claim_of("x", "me"));
    const auto attempt = session->attempt(false, soon(), {});
    const std::uint64_t fence = std::get<Lease>(*attempt).fence;
    EXPECT_EQ(session->release(soon(), {}).value(), Released::done);
    return fence;
  };
  taken();
  put_back(2);
  const std::uint64_t fence = taken();
  EXPECT_GT(fence, wall() + k_hour);
  EXPECT_TRUE(files().empty()) << "nothing but the clock's file can have told";
  EXPECT_GT(taken(), fence);
}

// As on a machine that learns the time from the network after it has booted.
TEST_F(FenceClockTest, GoesForwardWithTheWallClock) {
  keep(boot_id() + " 1000\n");
  EXPECT_GE(now() + k_second, wall());
  const std::uint64_t fence = now();
  put_back(2);
  EXPECT_GT(now(), fence + k_hour);
}

TEST_F(FenceClockTest, AfterABootItBeginsAnew) {
  now();
  put_back(2);
  keep("0" + kept());
  EXPECT_LT(now(), wall() + k_hour);
  EXPECT_TRUE(kept().starts_with(boot_id() + " "));
}

TEST_F(FenceClockTest, NonsenseIsReplaced) {
  for (const char* text :
       {"", " ", "x", " 7", " 7x\n", " -7\n", " 99999999999999999999\n", " 9000000000000000000\n"}) {
    keep(boot_id() + text);
    EXPECT_LT(now(), wall() + k_hour) << text;
    EXPECT_GT(now() + k_hour, wall()) << text;
    EXPECT_EQ(kept(), kept().substr(0, kept().find('\n') + 1)) << text;
  }
}

TEST(FenceClock, WithoutAFileItIsTheWallClock) {
  const std::uint64_t before = static_cast<std::uint64_t>(wall_us());
  EXPECT_GE(FenceClock("/proc/none", 0600).now_us(), before);
}

}  // namespace
}  // namespace klock::test
