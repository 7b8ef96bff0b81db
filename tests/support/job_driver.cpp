// SPDX-License-Identifier: MIT
// Runs a command under supervise/ alone, without any lock: job_driver [KEY=VALUE...] -- COMMAND [ARG...]
//
//   report=FILE    appends "started PID", "not_started ERRNO", "ended STATUS CAUSE LEFT" (CAUSE as a number,
//   LEFT: ms
//                  to the deadline)
//   lease=MS       deadline, counted from the start; renew=1 extends it every third of it
//   kill_after=MS  max_hold=MS  signal=N  bound=1  warn=1  tree=1: as in JobOptions
//   will=FILE      last_will appends "will"; hold=FILE is opened, and its descriptor is the hold
//   check=SCRIPT   is the check; the command is started when it has ended by itself with another status than
//   0 stop=MS        stops the job (cause: forced) after that time; start_after=MS starts it only then;
//   pause=MS:
//                  between the check and the command
//   drop=MS        destroys the job after that time
//   env=NAME=VALUE, may be repeated
#include "supervise/job.hpp"
#include "supervise/program.hpp"
#include "supervise/signals.hpp"
#include "util/fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace {

using namespace klock;
using std::chrono::milliseconds;

void append(const std::string& file, const std::string& line) {
  if (file.empty()) return;
  const Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string text = line + "\n";
  if (write(fd.get(), text.data(), text.size()) < 0) abort();
}

class Driver {
 public:
  Driver(std::map<std::string, std::string> settings, std::vector<std::string> environment,
         JobOptions options)
      : settings_(std::move(settings)), environment_(std::move(environment)), options_(std::move(options)) {}

  int run() {
    auto desk = SignalDesk::open();
    if (!desk) return 71;
    desk->watch_all();
    const auto program = find_program(options_.argv.at(0));
    if (const auto* missing = std::get_if<ProgramMissing>(&program))
      return missing->error == ENOENT ? 127 : 126;
    options_.program = std::get<std::string>(program);
    if (has("exec")) options_.program = settings_["exec"];
    fill_options(*desk);
    auto job = Job::prepare(options_);
    if (!job) return 71;
    return supervise(std::move(*job), *desk);
  }

 private:
  bool has(const std::string& key) const { return settings_.count(key) != 0; }
  Duration time(const std::string& key) const {
    const auto found = settings_.find(key);
    return milliseconds(found == settings_.end() ? 0 : std::atoi(found->second.c_str()));
  }

  void fill_options(const SignalDesk& desk) {
    options_.kill_after = time("kill_after");
    options_.max_hold = time("max_hold");
    if (has("signal")) options_.stop_signal = std::atoi(settings_["signal"].c_str());
    options_.bound_forwarded = has("bound");
    options_.stop_at_deadline = !has("warn");
    options_.tree = has("tree");
    if (has("check")) options_.check = {"sh", "-c", settings_["check"]};
    options_.check_program = "/bin/sh";
    options_.original_mask = desk.original_mask();
    options_.ignore_chld = desk.chld_was_ignored();
    if (has("will"))
      options_.last_will = [this](bool started) {
        if (started && has("started")) append(settings_["started"], "started");
        append(settings_["will"], "will");
      };
  }

  Instant new_deadline() {
    if (has("lease")) deadline_ = BootClock::now() + time("lease");
    return deadline_;
  }
  long left_ms() const {
    if (deadline_ == k_never) return 0;
    return static_cast<long>(std::chrono::floor<milliseconds>(deadline_ - BootClock::now()).count());
  }

  int supervise(std::unique_ptr<Job> owner, SignalDesk& desk) {
    Job& job = *owner;
    Fd hold;
    if (has("hold")) hold.reset(open(settings_["hold"].c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const Instant begun = BootClock::now();
    const auto at = [&](const char* key) { return has(key) ? begun + time(key) : k_never; };
    Instant start_at = begun + time("start_after");
    Instant stop_at = at("stop");
    Instant renew_at = has("renew") ? begun + time("lease") / 3 : k_never;
    const Instant drop_at = at("drop");
    bool checking = has("check");
    for (;;) {
      const Instant now = BootClock::now();
      if (now >= start_at) {
        start_at = k_never;
        if (!job.start(environment_, new_deadline(), {hold.get()})) return 71;
        if (!checking) hold.reset();
      }
      if (now >= renew_at) {
        renew_at = now + time("lease") / 3;
        job.extend(new_deadline());
      }
      if (now >= stop_at) {
        stop_at = k_never;
        job.stop(StopCause::forced);
      }
      if (now >= drop_at) return 0;
      const Instant next = std::min({start_at, stop_at, renew_at, drop_at});
      std::array<pollfd, 2> fds{pollfd{desk.fd(), POLLIN, 0}, pollfd{job.event_fd(), POLLIN, 0}};
      poll(fds.data(), fds.size(), poll_timeout(next));
      while (const auto signal = desk.take()) job.forward(*signal);
      while (fds[1].revents != 0) {
        const auto event = job.next_event();
        if (!event) return 71;
        if (!*event) break;
        const auto status = on_event(**event);
        if (status && !std::exchange(checking, false)) return end(*status, std::move(owner));
        if (status && (*status == 0 || !WIFEXITED(*status) || WEXITSTATUS(*status) == 79))
          return end(*status, std::move(owner));
        if (status) start_at = BootClock::now() + time("pause");
      }
    }
  }

  // The wait status that ends it all.
  std::optional<int> on_event(const JobEvent& event) {
    if (const auto* started = std::get_if<CommandStarted>(&event)) {
      append(settings_["report"], "started " + std::to_string(started->pid));
      return std::nullopt;
    }
    if (const auto* failed = std::get_if<CommandNotStarted>(&event)) {
      append(settings_["report"], "not_started " + std::to_string(failed->error));
      return (failed->error == ENOENT ? 127 : 126) << 8;
    }
    const auto& ended = std::get<CommandEnded>(event);
    append(settings_["report"], "ended " + std::to_string(ended.wait_status.value_or(-1)) + " " +
                                    std::to_string(static_cast<int>(ended.stopped)) + " " +
                                    std::to_string(left_ms()));
    return ended.stopped == StopCause::none ? ended.wait_status.value() : 79 << 8;
  }

  static int end(int status, std::unique_ptr<Job> owner) {
    owner.reset();
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    die_of(WTERMSIG(status));
    return 128 + WTERMSIG(status);
  }

  std::map<std::string, std::string> settings_;
  std::vector<std::string> environment_;
  JobOptions options_;
  Instant deadline_ = k_never;
};

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> settings;
  std::vector<std::string> environment;
  int at = 1;
  for (; at < argc && std::string(argv[at]) != "--"; ++at) {
    const std::string word = argv[at];
    const auto equals = word.find('=');
    if (equals == std::string::npos) return 64;
    if (word.substr(0, equals) == "env")
      environment.push_back(word.substr(equals + 1));
    else
      settings[word.substr(0, equals)] = word.substr(equals + 1);
  }
  JobOptions options;
  for (++at; at < argc; ++at) options.argv.emplace_back(argv[at]);
  if (options.argv.empty()) return 64;
  return Driver(std::move(settings), std::move(environment), std::move(options)).run();
}
