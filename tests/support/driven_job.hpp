// SPDX-License-Identifier: MIT
#pragma once

#include "support/eventually.hpp"

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace klock::test {

// 'R', 'S', 'T', 'Z'...; 0: there is no such process.
char state_of(pid_t pid);
bool lives(pid_t pid);  // zombies don't
std::vector<pid_t> children_of(pid_t pid);
std::string name_of(pid_t pid);
std::string slurp(const std::string& file);
std::vector<std::string> lines_of(const std::string& file);

// A fresh directory, removed with all that is in it.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A job_driver process (support/job_driver.cpp) and what it reports. Whatever of it still runs is killed at
// the end.
class DrivenJob {
 public:
  // `before_exec` runs in the child, before the driver.
  DrivenJob(const std::string& driver, const std::vector<std::string>& settings,
            const std::vector<std::string>& command, const std::function<void()>& before_exec = {});
  ~DrivenJob();
  DrivenJob(const DrivenJob&) = delete;
  DrivenJob& operator=(const DrivenJob&) = delete;

  pid_t main() const { return main_; }
  pid_t guard();                  // waits for it to have become the guard
  pid_t command();                // waits for the start
  void signal(int signal) const;  // to main

  // The wait status of main; fails the test and kills it after `limit_ms`.
  int wait(int limit_ms = 10'000);
  int exit_code(int limit_ms = 10'000);  // -1: it died of a signal

  // The last report.
  std::optional<int> ended_status() const;
  std::optional<int> ended_cause() const;
  std::optional<int> ended_before_deadline_ms() const;
  std::string out(const std::string& name) const { return scratch_.file(name); }

 private:
  std::optional<std::vector<std::string>> ended() const;

  ScratchDirectory scratch_;
  std::vector<pid_t> not_ours_;  // children that were there before
  pid_t main_ = -1;
  std::optional<int> status_;
};

// The words of a command that runs `script` in a shell with `out` as its $1.
std::vector<std::string> shell(const std::string& script, const std::string& out = "");

}  // namespace klock::test
