// SPDX-License-Identifier: MIT
#include "store/local/event_file.hpp"

#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace klock {
namespace {

class EventFileTest : public testing::Test {
 protected:
  static Event named(const std::string& name, std::int64_t wall_ms = 1'795'974'780'123) {
    Event event;
    event.wall_us = wall_ms * 1000;
    event.lock = {name, "klock:" + name};
    return event;
  }
  std::vector<std::string> names(const EventQuery& query = {}) {
    const auto page = file_.read(query);
    EXPECT_TRUE(page);
    std::vector<std::string> found;
    if (!page) return found;
    for (const Event& event : page->events) found.push_back(event.lock.name);
    position_ = page->position;
    return found;
  }
  void fill() const {  // so that the next event goes to a new file
    std::ofstream(path_, std::ios::app) << std::string(std::size_t{2} << 20, 'x') << '\n';
  }

  using Names = std::vector<std::string>;
  const test::ScratchDirectory scratch_;
  const std::string path_ = scratch_.file("events.log");
  const EventFile file_{scratch_.file(""), 0600};
  std::string position_;
};

TEST_F(EventFileTest, NothingIsThere) {
  EXPECT_EQ(names(), Names{});
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(EventFileTest, WhatIsAppendedIsRead) {
  ASSERT_TRUE(file_.append(named("a", 1000)));
  ASSERT_TRUE(file_.append(named("b", 2000)));
  EXPECT_EQ(names(), (Names{"a", "b"}));
  EXPECT_EQ(names({2000, {}}), Names{"b"});
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
}

TEST_F(EventFileTest, NewFilesHaveTheModeWhateverTheUmask) {
  const EventFile shared(scratch_.file(""), 0666);
  const mode_t before = umask(077);
  EXPECT_TRUE(shared.append(named("a")));
  umask(before);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0666));
}

TEST_F(EventFileTest, ALinkIsNotFollowed) {
  std::ofstream(scratch_.file("other")) << "x";
  ASSERT_EQ(symlink(scratch_.file("other").c_str(), path_.c_str()), 0);
  EXPECT_FALSE(file_.append(named("a")));
}

TEST_F(EventFileTest, APositionGoesOnAfterIt) {
  ASSERT_TRUE(file_.append(named("a")));
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(names({0, position_}), Names{});
  ASSERT_TRUE(file_.append(named("b")));
  EXPECT_EQ(names({0, position_}), Names{"b"});
}

TEST_F(EventFileTest, APositionOutlastsARotation) {
  ASSERT_TRUE(file_.append(named("a")));
  EXPECT_EQ(names(), Names{"a"});
  ASSERT_TRUE(file_.append(named("b")));
  fill();
  ASSERT_TRUE(file_.append(named("c")));
  EXPECT_TRUE(std::filesystem::exists(path_ + ".1"));
  EXPECT_EQ(names({0, position_}), (Names{"b", "c"}));
  EXPECT_EQ(names(), (Names{"a", "b", "c"}));
}

TEST_F(EventFileTest, APositionInAFileThatWasCut) {
  ASSERT_TRUE(file_.append(named("a")));
  EXPECT_EQ(names(), Names{"a"});
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(names({0, position_}), Names{});
  ASSERT_TRUE(file_.append(named("b", 2)));
  EXPECT_EQ(names({0, position_}), Names{"b"});
}

TEST_F(EventFileTest, APositionWhileTheCurrentFileIsMissing) {
  ASSERT_TRUE(file_.append(named("a")));
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(names({0, position_}), Names{});
  ASSERT_TRUE(file_.append(named("b")));
  EXPECT_EQ(names({0, position_}), Names{"b"});
}

TEST_F(EventFileTest, TwoFilesAreKept) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(file_.append(named(name)));
    fill();
  }
  ASSERT_TRUE(file_.append(named("d")));
  EXPECT_EQ(names(), (Names{"c", "d"}));
  EXPECT_EQ(names({0, "123456789:5"}), (Names{"c", "d"})) << "a position in what is gone";
}

TEST_F(EventFileTest, AHalfLineIsNotThereYet) {
  ASSERT_TRUE(file_.append(named("a")));
  std::ofstream(path_, std::ios::app) << R"({"time":"2026)";
  EXPECT_EQ(names(), Names{"a"});
  std::ofstream(path_, std::ios::app) << "\n";
  EXPECT_EQ(names({0, position_}), Names{});
}

TEST_F(EventFileTest, ManyWritersLoseNothing) {
  fill();
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int k = 0; k < 200; ++k) EXPECT_TRUE(file_.append(named("n")));
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(names().size(), 800U);
}

TEST_F(EventFileTest, WhatIsNoFileIsAnError) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_FALSE(file_.append(named("a")));
}

TEST_F(EventFileTest, APipeThatNobodyReadsDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(file_.append(named("a")));
  EXPECT_FALSE(file_.read({}));
}

}  // namespace
}  // namespace klock
