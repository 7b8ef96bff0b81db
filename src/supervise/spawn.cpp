// SPDX-License-Identifier: MIT
#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace klock {
namespace {

constexpr std::size_t k_stack = 64UL * 1024;  // of the child until it is the command; little of it is touched

using Pointers = std::vector<char*>;

bool same_variable(std::string_view a, std::string_view b) {
  const auto name = a.substr(0, a.find('=') + 1);
  return !name.empty() && b.substr(0, name.size()) == name;
}

// Our environment with the page's variables in place of those of the same name.
Pointers merge_environment(GuardPage& page) {
  Pointers merged;
  char* const end = page.environment.data() + page.environment_size.load();
  for (char* text = page.environment.data(); text < end; text += std::strlen(text) + 1)
    merged.push_back(text);
  const auto added = merged.size();
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    bool replaced = false;
    for (std::size_t i = 0; i < added && !replaced; ++i) replaced = same_variable(merged[i], *variable);
    if (!replaced) merged.push_back(*variable);
  }
  merged.push_back(nullptr);
  return merged;
}

// execve(2) does not write to the strings.
char* pointer_to(const std::string& text) {
  return const_cast<char*>(text.c_str());
}

struct Image {
  const char* program;
  char* const* argv;
  char* const* environment;
  bool reads_nothing;
};

struct Birth {
  const Image& image;
  const JobOptions& options;
  const pid_t guard;
  const pid_t group;
  GuardPage& page;
};

bool point_stdin_to_nothing() {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd == STDIN_FILENO) return fcntl(fd, F_SETFD, 0) == 0;
  return fd >= 0 && dup2(fd, STDIN_FILENO) >= 0;
}

// In the child, which still shares the memory of its parent: system calls only.
int become(void* argument) {
  const Birth& birth = *static_cast<const Birth*>(argument);
  birth.page.command.store(getpid());
  if (setpgid(0, birth.group) == 0) {
    birth.page.in_group.store(true);
    // Should main and guard both be killed, the command itself at least goes with them.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != birth.guard) _exit(127);  // it was killed before the line above
    if (birth.options.ignore_chld) signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &birth.options.original_mask, nullptr);
    if (!birth.image.reads_nothing || point_stdin_to_nothing())
      execve(birth.image.program, birth.image.argv, birth.image.environment);
  }
  birth.page.exec_error.store(errno);
  _exit(127);
}

int run_image(const Image& image, const JobOptions& options, pid_t group, GuardPage& page) {
  Birth birth{image, options, getpid(), group, page};
  page.exec_error.store(0);
  // As vfork(2), which the thread sanitizer replaces by a plain fork: then we would go on before the command
  // is there.
  alignas(16) std::array<char, k_stack> stack;
  const pid_t child = clone(become, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
  if (child < 0) return errno;
  const int error = page.exec_error.load();
  if (error == 0) return 0;
  page.command.store(0);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return error;
}

}  // namespace

int spawn_command(const Program& program, const JobOptions& options, pid_t group, GuardPage& page) {
  const Pointers environment = merge_environment(page);
  Pointers argv;
  argv.reserve(program.argv.size() + 2);
  for (const std::string& word : program.argv) argv.push_back(pointer_to(word));
  argv.push_back(nullptr);
  const int error = run_image({program.path.c_str(), argv.data(), environment.data(), program.reads_nothing},
                              options, group, page);
  if (error != ENOEXEC) return error;
  std::string shell = "/bin/sh";
  argv[0] = pointer_to(program.path);
  argv.insert(argv.begin(), shell.data());
  return run_image({shell.c_str(), argv.data(), environment.data(), program.reads_nothing}, options, group,
                   page);
}

}  // namespace klock
