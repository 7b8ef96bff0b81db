// SPDX-License-Identifier: MIT
#include "store/redis/lookup.hpp"

#include "util/fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace klock::redis {
namespace {

constexpr std::size_t k_longest_answer = 64UL * 1024;

// A getent at work; gone with this object, whether it has ended or not.
class Inquiry {
 public:
  ~Inquiry() { end(); }

  int start(const std::string& host) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
    answer_.reset(ends[0]);
    const Fd theirs(ends[1]);
    std::string name = host;
    std::array<std::string, 3> words{"getent", "ahosts", "--"};
    std::array<char*, 5> argv{words[0].data(), words[1].data(), words[2].data(), name.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawnp(&pid_, "getent", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }

  // All that it says; `ready` tells why it ended otherwise.
  std::string read_all(Instant deadline, Interrupt interrupt, Ready& ready) {
    std::string text;
    std::array<char, 4096> block;
    while (text.size() < k_longest_answer) {
      ready = wait_ready(answer_.get(), POLLIN, deadline, interrupt);
      if (ready != Ready::descriptor) break;
      const ssize_t got = read(answer_.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(block.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  void end() {
    // Whoever takes over from a dead guard may have reaped it (supervise/job.cpp): then its number is not
    // ours.
    if (pid_ <= 0 || waitpid(pid_, nullptr, WNOHANG) != 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  pid_t pid_ = 0;
  Fd answer_;
};

// Lines such as "10.0.0.1  STREAM redis.example".
std::vector<std::string> parse(std::string_view text) {
  std::vector<std::string> addresses;
  for (; !text.empty(); text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1)) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.find("STREAM") != std::string_view::npos) addresses.emplace_back(line.substr(0, line.find(' ')));
  }
  return addresses;
}

}  // namespace

Io<std::vector<std::string>> look_up(const std::string& host, Instant deadline, Interrupt interrupt) {
  Inquiry inquiry;
  if (const int error = inquiry.start(host); error != 0)
    return fault(Cause::final, ErrorKind::system, std::string("cannot run getent: ") + std::strerror(error),
                 "give an address instead of " + host);
  Ready ready = Ready::descriptor;
  std::vector<std::string> addresses = parse(inquiry.read_all(deadline, interrupt, ready));
  if (ready == Ready::interrupted) return interrupted_fault();
  if (ready == Ready::timeout)
    return fault(Cause::timeout, ErrorKind::unreachable, "looking up " + host + " took too long",
                 "check the resolver, or give an address");
  if (addresses.empty())
    return fault(Cause::no_contact, ErrorKind::unreachable, "there is no host " + host,
                 "check the host's name");
  return addresses;
}

}  // namespace klock::redis
