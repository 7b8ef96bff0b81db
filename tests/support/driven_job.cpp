// SPDX-License-Identifier: MIT
#include "support/driven_job.hpp"

#include <gtest/gtest.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace klock::test {
namespace {

// The fields of /proc/PID/stat after the name; empty: no such process.
std::vector<std::string> stat_of(pid_t pid) {
  const std::string text = slurp("/proc/" + std::to_string(pid) + "/stat");
  const auto close = text.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream words(text.substr(close + 1));
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  return fields;
}

}  // namespace

char state_of(pid_t pid) {
  const auto fields = stat_of(pid);
  return fields.empty() ? '\0' : fields[0][0];
}

bool lives(pid_t pid) {
  const char state = state_of(pid);
  return state != '\0' && state != 'Z' && state != 'X';
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t other = std::atoi(entry.path().filename().c_str());
    const auto fields = other > 0 ? stat_of(other) : std::vector<std::string>{};
    if (fields.size() > 1 && std::atoi(fields[1].c_str()) == pid) children.push_back(other);
  }
  return children;
}

std::string name_of(pid_t pid) {
  const std::string text = slurp("/proc/" + std::to_string(pid) + "/comm");
  return text.substr(0, text.find('\n'));
}

std::string slurp(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

ScratchDirectory::ScratchDirectory() {
  std::string path = std::filesystem::temp_directory_path() / "klock-test-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) abort();
  path_ = path;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

DrivenJob::DrivenJob(const std::string& driver, const std::vector<std::string>& settings,
                     const std::vector<std::string>& command, const std::function<void()>& before_exec) {
  std::vector<std::string> words{driver, "report=" + scratch_.file("report")};
  words.insert(words.end(), settings.begin(), settings.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  // "@/x" stands for the file x in the scratch directory.
  for (std::string& word : words)
    for (auto at = word.find("@/"); at != std::string::npos; at = word.find("@/"))
      word.replace(at, 2, scratch_.file(""));
  not_ours_ = children_of(getpid());
  // What outlives the driver comes to us, and the destructor finds it.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  main_ = fork();
  if (main_ == 0) {
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what this test was started with is no part of it
    if (before_exec) before_exec();
    execv(argv[0], argv.data());
    _exit(99);
  }
}

DrivenJob::~DrivenJob() {
  for (int round = 0; round < 200; ++round) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) return;
    bool all_gone = true;
    for (const pid_t pid : children_of(getpid())) {
      if (std::find(not_ours_.begin(), not_ours_.end(), pid) != not_ours_.end()) continue;
      all_gone = false;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    if (all_gone) return;
  }
}

pid_t DrivenJob::guard() {
  pid_t found = 0;
  EXPECT_TRUE(eventually([&] {
    for (const pid_t child : children_of(main_))
      if (name_of(child) == "lock-guard") found = child;
    return found != 0;
  }));
  return found;
}

pid_t DrivenJob::command() {
  pid_t pid = 0;
  EXPECT_TRUE(eventually([&] {
    for (const auto& line : lines_of(scratch_.file("report")))
      if (line.rfind("started ", 0) == 0) pid = std::atoi(line.c_str() + 8);
    return pid != 0;
  }));
  return pid;
}

void DrivenJob::signal(int signal) const {
  kill(main_, signal);
}

int DrivenJob::wait(int limit_ms) {
  if (status_) return *status_;
  int status = 0;
  if (!eventually([&] { return waitpid(main_, &status, WNOHANG) == main_; }, limit_ms)) {
    ADD_FAILURE() << "the driver does not end";
    kill(main_, SIGKILL);
    waitpid(main_, &status, 0);
  }
  status_ = status;
  return status;
}

int DrivenJob::exit_code(int limit_ms) {
  const int status = wait(limit_ms);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::optional<std::vector<std::string>> DrivenJob::ended() const {
  for (const auto& line : lines_of(scratch_.file("report"))) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (fields.size() == 4 && fields[0] == "ended") return fields;
  }
  return std::nullopt;
}

std::optional<int> DrivenJob::ended_status() const {
  const auto fields = ended();
  return fields ? std::optional(std::stoi((*fields)[1])) : std::nullopt;
}

std::optional<int> DrivenJob::ended_cause() const {
  const auto fields = ended();
  return fields ? std::optional(std::stoi((*fields)[2])) : std::nullopt;
}

std::optional<int> DrivenJob::ended_before_deadline_ms() const {
  const auto fields = ended();
  return fields ? std::optional(std::stoi((*fields)[3])) : std::nullopt;
}

std::vector<std::string> shell(const std::string& script, const std::string& out) {
  return {"/bin/sh", "-c", script, "sh", out};
}

}  // namespace klock::test
