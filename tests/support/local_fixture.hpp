// SPDX-License-Identifier: MIT
#pragma once

#include "store/local/local_store.hpp"
#include "store/local/lock_directory.hpp"
#include "store/local/lock_file.hpp"
#include "store/local/records.hpp"
#include "support/eventually.hpp"
#include "util/fd.hpp"

#include <gtest/gtest.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace klock::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const seconds k_patience{30 * slow_factor()};

inline Instant soon() {
  return BootClock::now() + k_patience;
}

inline LockName lock_named(const std::string& name) {
  return {name, "klock:" + name};
}

inline Claim claim_of(const std::string& name, const std::string& token) {
  Claim claim;
  claim.lock = lock_named(name);
  claim.token.value = token;
  claim.token.value.resize(32, '0');
  claim.who.user = "tester";
  claim.who.host = "here";
  claim.who.pid = getpid();
  claim.who.program = "program";
  return claim;
}

// Attempts until held; false when it takes too long.
inline bool wait_for_lock(LockSession& session) {
  const Instant deadline = soon();
  while (BootClock::now() < deadline) {
    const auto attempt = session.attempt(true, deadline, {});
    if (!attempt) return false;
    if (std::holds_alternative<Lease>(*attempt)) return true;
    if (!session.await_news(std::min(std::get<Busy>(*attempt).look_again, deadline), {})) return false;
  }
  return false;
}

// The other side of a child process: single characters in both directions.
class Line {
 public:
  Line(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {}
  void say(char c) const { EXPECT_EQ(write(out_.get(), &c, 1), 1); }
  // '\0': nothing came in time, or the other side is gone.
  char hear() const {
    pollfd ready{in_.get(), POLLIN, 0};
    char c = '\0';
    if (poll(&ready, 1, static_cast<int>(milliseconds(k_patience).count())) != 1 ||
        read(in_.get(), &c, 1) != 1)
      return '\0';
    return c;
  }
  bool heard_anything() const {
    pollfd ready{in_.get(), POLLIN, 0};
    return poll(&ready, 1, 0) > 0;
  }

 private:
  Fd in_;
  Fd out_;
};

// No other thread of this process runs. One that does may hold a lock of the allocator, which a child of fork
// would then wait for in vain: the address sanitizer's is not made for that.
inline bool others_sleep() {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  bool all = true;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || std::string(entry->d_name) == std::to_string(getpid())) continue;
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string pid, name, state;
    if (file >> pid >> name >> state && state != "S") all = false;
  }
  closedir(tasks);
  return all;
}

class Child {
 public:
  explicit Child(const std::function<void(Line&)>& body) {
    EXPECT_TRUE(eventually(others_sleep));
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    EXPECT_EQ(pipe2(down.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(up.data(), O_CLOEXEC), 0);
    fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      close(down[1]);
      close(up[0]);
      Line line(Fd{down[0]}, Fd{up[1]});
      body(line);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    close(down[0]);
    close(up[1]);
    line_.emplace(Fd{up[0]}, Fd{down[1]});
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), line_(std::move(other.line_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  const Line& line() const { return *line_; }
  void signal(int number) const { ::kill(pid_, number); }
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);  // each of its threads has stopped by then
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  // Its exit status once it has ended by itself.
  int join() {
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::optional<Line> line_;
};

// Processes that take and release locks of a directory of their own.
class LocalStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/klock-local-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    root_ = path;
    directory_ = root_ + "/locks";
  }
  void TearDown() override {
    const std::string command = "chmod -R u+rwx '" + root_ + "'; rm -rf '" + root_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }

  std::unique_ptr<LockStore> store() const { return open_local_store(directory_, "klock:"); }
  std::string file_of(const std::string& name) const {
    return LockDirectory(directory_).file_path("klock:" + name);
  }

  LockState state_of(const std::string& name) const {
    auto state = store()->inspect(lock_named(name), soon(), {});
    EXPECT_TRUE(state) << state.error().what;
    return state ? *state : LockState{};
  }
  std::size_t waiters_of(const std::string& name) const { return state_of(name).waiters.size(); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR* directory = opendir(directory_.c_str());
    if (directory == nullptr) return names;
    while (const dirent* entry = readdir(directory))
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    closedir(directory);
    return names;
  }

  // Takes the lock, says "h", holds until told anything, releases, says "r".
  Child holder(const std::string& name, const std::string& token = "holder") const {
    return Child([&](Line& line) {
      auto locks = store();
      auto session = locks->session(claim_of(name, token));
      EXPECT_TRUE(wait_for_lock(*session));
      line.say('h');
      line.hear();
      const auto released = session->release(soon(), {});
      EXPECT_TRUE(released && *released == Released::done);
      line.say('r');
    });
  }
  Child running_holder(const std::string& name, const std::string& token = "holder") const {
    Child child = holder(name, token);
    EXPECT_EQ(child.line().hear(), 'h');
    return child;
  }
  // One that is in the queue already when this returns.
  Child queued(const std::string& name, const std::string& token) const {
    const std::size_t before = waiters_of(name);
    Child child = holder(name, token);
    EXPECT_TRUE(eventually([&] { return waiters_of(name) == before + 1; }));
    return child;
  }
  Result<Attempt> attempt_once(const std::string& name) const {
    auto locks = store();
    return locks->session(claim_of(name, "probe"))->attempt(false, soon(), {});
  }
  // Only one process at a time gets through here without a failure.
  void be_inside(bool yield) const {
    const std::string inside = root_ + "/inside";
    const Fd fd(open(inside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd) << "overlap";
    if (yield) sched_yield();
    unlink(inside.c_str());
  }
  void expect_all_done(std::vector<Child>& children) const {
    for (Child& child : children) {
      EXPECT_EQ(child.line().hear(), 'd');
      EXPECT_EQ(child.join(), 0);
    }
    EXPECT_TRUE(files().empty());
  }
  bool is_busy(const std::string& name) const {
    const auto attempt = attempt_once(name);
    return attempt && std::holds_alternative<Busy>(*attempt);
  }

  std::string root_;
  std::string directory_;
};

inline void release_and_join(Child& child) {
  child.line().say('x');
  EXPECT_EQ(child.line().hear(), 'r');
  EXPECT_EQ(child.join(), 0);
}

}  // namespace klock::test
