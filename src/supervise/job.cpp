// SPDX-License-Identifier: MIT
#include "supervise/job.hpp"

#include "supervise/guard.hpp"
#include "supervise/guard_page.hpp"
#include "supervise/process_group.hpp"
#include "supervise/terminal.hpp"
#include "util/fd.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace klock {
namespace {

constexpr Duration k_look = std::chrono::milliseconds(2);
constexpr Duration k_birth_look = std::chrono::microseconds(100);
constexpr Duration k_longest_birth = std::chrono::seconds(1);

struct Unmap {
  void operator()(GuardPage* page) const { munmap(page, sizeof *page); }
};
using SharedPage = std::unique_ptr<GuardPage, Unmap>;

Result<SharedPage> share_page() {
  void* memory = mmap(nullptr, sizeof(GuardPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_failure("cannot get memory for the guard", errno);
  return SharedPage(new (memory) GuardPage);
}

void pause_briefly(Duration pause = k_look) {
  const timespec time{0, pause.count()};
  nanosleep(&time, nullptr);
}

// Whether the terminal sent this to our whole group. A hang-up (HUP, CONT) it tells to the leader of the
// session alone, which would pass it on by dying.
bool sent_to_group(const signalfd_siginfo& info) {
  if (info.ssi_code != SI_KERNEL) return false;
  const bool may_be_hang_up = info.ssi_signo == SIGHUP || info.ssi_signo == SIGCONT;
  return !may_be_hang_up || getsid(0) != getpid();
}

std::optional<int> reap(pid_t pid) {
  int status = 0;
  for (;;) {
    const pid_t got = waitpid(pid, &status, 0);
    if (got == pid) return status;
    if (errno != EINTR) return std::nullopt;
  }
}

}  // namespace

struct Job::Impl {
  Impl(JobOptions with, SharedPage shared) : options(std::move(with)), page(std::move(shared)) {}

  void thaw() const;
  Status send(Order order, const std::vector<int>& fds = {}) const;
  void pass_on(int signal) const;
  void await_birth();
  std::optional<JobEvent> on_report(const Report& report);
  void on_suspended(int signal);
  bool hand_over_terminal();
  JobEvent take_over();
  void stop_ourselves(const ProcessGroup& group) const;
  void take_terminal_back();

  const JobOptions options;
  const SharedPage page;
  Fd line;
  pid_t guard = 0;
  std::vector<int> early_signals;  // came before start()
  sigset_t before_birth{};         // came before the command was in our group
  bool start_called = false;
  bool shares_group = false;  // the command runs in our own group
  bool over = false;          // the last event of this start has been given out
  bool terminal_handed_over = false;
};

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Job>> Job::prepare(JobOptions options) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return system_failure("cannot make a line to the guard", errno);
  Fd line(ends[0]);
  Fd guards_end(ends[1]);
  KLOCK_TRY(page, share_page());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(page));
  impl->guard = fork();
  if (impl->guard == 0) be_the_guard(std::move(guards_end), *impl->page, impl->options);
  if (impl->guard < 0) return system_failure("cannot start the guard", errno);
  impl->line = std::move(line);
  // If the guard dies, what it left behind comes to us.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return std::unique_ptr<Job>(new Job(std::move(impl)));
}

Job::~Job() {
  if (impl_->guard == 0) return;
  // A guard that has nothing to do, or has done it all, need not even notice; a frozen one could not.
  if (!impl_->start_called || impl_->over) kill(impl_->guard, SIGKILL);
  impl_->line.reset();
  kill(impl_->guard, SIGCONT);  // see send()
  reap(impl_->guard);
}

Status Job::start(const std::vector<std::string>& environment, Instant deadline,
                  const std::vector<int>& hold_fds) {
  Impl& impl = *impl_;
  impl.start_called = true;
  impl.over = false;
  GuardPage& page = *impl.page;
  page.command.store(0);  // that of the check
  page.in_group.store(false);
  std::size_t used = 0;
  for (const std::string& variable : environment) {
    const std::size_t size = variable.size() + 1;
    if (size > page.environment.size() - used)
      return failure(ErrorKind::system, "the command's environment is too large");
    std::memcpy(page.environment.data() + used, variable.c_str(), size);
    used += size;
  }
  page.environment_size.store(static_cast<std::uint32_t>(used));
  extend(deadline);
  impl.shares_group = in_foreground();
  KLOCK_CHECK(impl.send({OrderKind::start, impl.shares_group ? getpgrp() : 0}, hold_fds));
  sigemptyset(&impl.before_birth);
  if (impl.shares_group) impl.await_birth();
  for (const int signal : std::exchange(impl.early_signals, {})) impl.pass_on(signal);
  return {};
}

// What was pending for us when the command had just come into our group is passed on, whoever sent it:
// 1. Ctrl-C: we have it alone  2. the command comes into our group  3. we read the signal, and it looks as if
// the command had got it too.
void Job::Impl::await_birth() {
  const Instant limit = BootClock::now() + k_longest_birth;
  while (!page->in_group.load() && BootClock::now() < limit) {
    pollfd report{line.get(), POLLIN, 0};
    if (poll(&report, 1, 0) > 0) break;  // it could not be started, or the guard is dead
    pause_briefly(k_birth_look);
  }
  sigpending(&before_birth);
}

void Job::bound_kill_after(Duration most) {
  impl_->page->most_kill_after_ns.store(most.count(), std::memory_order_relaxed);
}

void Job::extend(Instant deadline) {
  impl_->page->deadline_ns.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
}

void Job::forward(const signalfd_siginfo& info) {
  Impl& impl = *impl_;
  const int signal = static_cast<int>(info.ssi_signo);
  if (!impl.start_called) return impl.early_signals.push_back(signal);
  // Unless it has made a group of its own by now, as an interactive shell does.
  const bool in_our_group =
      impl.shares_group && impl.page->in_group.load() && getpgid(impl.page->command.load()) == getpgrp();
  const bool was_before = sigismember(&impl.before_birth, signal) == 1;
  sigdelset(&impl.before_birth, signal);
  if (in_our_group && !was_before && sent_to_group(info)) return;
  if (signal == SIGCONT && !impl.shares_group) impl.hand_over_terminal();
  impl.pass_on(signal);
}

void Job::stop(StopCause cause) {
  StopCause none = StopCause::none;
  if (impl_->page->stop.compare_exchange_strong(none, cause))
    (void)impl_->send({OrderKind::look, 0});  // a dead guard shows in next_event()
}

void Job::thaw_guard() const {
  impl_->thaw();
}

int Job::event_fd() const {
  return impl_->line.get();
}

Result<std::optional<JobEvent>> Job::next_event() {
  Impl& impl = *impl_;
  while (!impl.over) {
    Report report;
    const ssize_t got = recv(impl.line.get(), &report, sizeof report, MSG_DONTWAIT);
    // ECONNRESET: it ended before it read all that we sent. The kernel tells that once, before what it still
    // had to say itself.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got < 0) return system_failure("cannot hear the guard", errno);
    if (got <= 0) return impl.take_over();
    if (auto event = impl.on_report(report)) return event;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------------------------

// The guard blocks all signals: this is nothing to it unless someone has frozen it.
void Job::Impl::thaw() const {
  if (guard > 0) kill(guard, SIGCONT);
}

Status Job::Impl::send(Order order, const std::vector<int>& fds) const {
  iovec data{&order, sizeof order};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * k_most_holds)> control{};
  std::vector<int> sent;
  std::copy_if(fds.begin(), fds.end(), std::back_inserter(sent), [](int fd) { return fd >= 0; });
  if (sent.size() > k_most_holds) return failure(ErrorKind::system, "these are too many locks for the guard");
  if (!sent.empty()) {
    const std::size_t size = sizeof(int) * sent.size();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), sent.data(), size);
  }
  order.holds = static_cast<std::int32_t>(sent.size());
  thaw();
  for (;;) {
    if (sendmsg(line.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
    if (errno != EINTR) return system_failure("the guard process is gone", errno);
  }
}

void Job::Impl::pass_on(int signal) const {
  (void)send({OrderKind::forward, signal});
}

std::optional<JobEvent> Job::Impl::on_report(const Report& report) {
  switch (report.kind) {
    case ReportKind::started:
      return CommandStarted{report.value};
    case ReportKind::not_started:
      over = true;
      return CommandNotStarted{report.value};
    case ReportKind::too_late:
      over = true;
      return CommandEnded{std::nullopt, StopCause::deadline};
    case ReportKind::suspended:
      on_suspended(report.value);
      return std::nullopt;
    case ReportKind::ended:
      break;
  }
  over = true;
  take_terminal_back();
  return CommandEnded{report.value, static_cast<StopCause>(report.stopped)};
}

// The command, in a group of its own, was stopped by job control.
void Job::Impl::on_suspended(int signal) {
  if (signal == SIGTSTP && !terminal_handed_over) return;  // not from our terminal: someone's own business
  // It wanted the terminal, and by now the user has brought us to the front.
  if (signal != SIGTSTP && hand_over_terminal()) return pass_on(SIGCONT);
  // Otherwise our caller must see a suspended job. What continues us comes as SIGCONT and is forwarded.
  if (suspend_like(signal)) return;
  // Nobody will: as the kernel does with an orphaned group.
  pass_on(SIGHUP);
  pass_on(SIGCONT);
}

bool Job::Impl::hand_over_terminal() {
  const pid_t command = page->command.load();
  const bool passed = command > 0 && pass_terminal(getpgrp(), command);
  terminal_handed_over = terminal_handed_over || passed;
  return passed;
}

void Job::Impl::take_terminal_back() {
  if (std::exchange(terminal_handed_over, false)) pass_terminal(page->command.load(), getpgrp());
}

// The guard is dead. The end of the line shows only once no child of its fork holds the line either: so
// either the page names the command, or there is none.
JobEvent Job::Impl::take_over() {
  over = true;
  reap(std::exchange(guard, 0));
  const pid_t command = page->command.load();
  if (command == 0) return CommandEnded{std::nullopt, StopCause::guard_gone};
  const Scope scope = options.tree ? Scope::tree : shares_group ? Scope::shared_group : Scope::own_group;
  stop_ourselves(ProcessGroup(scope, command, shares_group ? getpgrp() : command));
  const auto status = reap(command);
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  take_terminal_back();
  return CommandEnded{status.value_or(SIGKILL), StopCause::guard_gone};
}

void Job::Impl::stop_ourselves(const ProcessGroup& group) const {
  const Duration kill_after = page->kill_after(options);
  Instant kill_at = BootClock::now() + kill_after;
  if (options.stop_at_deadline) kill_at = std::min(kill_at, page->deadline() - kill_margin(kill_after));
  if (BootClock::now() < kill_at) {
    group.signal(options.stop_signal);
    group.signal(SIGCONT);
  }
  while (group.alive()) {
    if (BootClock::now() >= kill_at) group.signal(SIGKILL);
    pause_briefly();
  }
}

}  // namespace klock
