// SPDX-License-Identifier: MIT
#include "commands/keeper.hpp"

#include "config/duration.hpp"
#include "lease/hold_mark.hpp"
#include "lease/renewer.hpp"
#include "output/message.hpp"
#include "supervise/guard_descriptors.hpp"
#include "supervise/signals.hpp"
#include "util/procfs.hpp"
#include "util/signal_set.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace klock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration k_start_again = milliseconds(100);
constexpr Duration k_release_time = seconds(10);
constexpr char k_shell_ended[] = "the shell has ended";
constexpr char k_word = '\n';  // over the line: "ready", and then "confirmed"

class KeeperProcess {
 public:
  KeeperProcess(Fd line, const KeeperOrders& orders)
      : orders_(orders),
        line_(std::move(line)),
        deadline_(orders.lease.deadline),
        renewer_(
            orders.session, orders.lease, orders.ttl, [this](Instant deadline) { deadline_.store(deadline); },
            Renewer::WhenAsked::go_on) {}

  [[noreturn]] void run() {
    if (!settle()) _exit(1);
    if (orders_.begin) orders_.begin();
    for (;;) {
      arm_timer(timer_.get(), next_due());
      std::array<pollfd, 5> fds{pollfd{terminate_.get(), POLLIN, 0}, pollfd{orders_.shell.fd(), POLLIN, 0},
                                pollfd{line_.get(), POLLIN, 0}, pollfd{renewer_.event_fd(), POLLIN, 0},
                                pollfd{timer_.get(), POLLIN, 0}};
      if (poll(fds.data(), fds.size(), -1) < 0) continue;
      if (fds[0].revents != 0 || fds[1].revents != 0)
        release_and_end(orders_.shell.has_ended() ? k_shell_ended : "the keeper was ended by TERM");
      if (fds[2].revents != 0) hear();
      if (fds[3].revents != 0)
        for (const RenewalEvent& event : renewer_.take_events())
          std::visit([this](const auto& one) { on(one); }, event);
      on_time(BootClock::now());
    }
  }

 private:
  bool settle() {
    setsid();
    prctl(PR_SET_NAME, "klock-keeper");
    release_standard(orders_.shell.fd());
    close_descriptors_of_caller();
    // No file system stays busy because a shell was there once. Where that fails, one does.
    [[maybe_unused]] const int moved = chdir("/");
    const sigset_t all = all_signals();
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal(SIGTERM, SIG_DFL);  // the shell may have had it ignored
    const sigset_t terminate = only(SIGTERM);
    terminate_.reset(signalfd(-1, &terminate, SFD_CLOEXEC | SFD_NONBLOCK));
    timer_.reset(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    mark_ = mark_hold(orders_.id);
    return terminate_ && timer_ && mark_ && write(line_.get(), &k_word, 1) == 1;
  }

  void hear() {
    char word = 0;
    const ssize_t got = read(line_.get(), &word, 1);
    if (got < 0 && errno == EINTR) return;
    if (got != 1) release_and_end("klock died before the shell had its lock");
    line_.reset();
  }

  Instant next_due() const { return std::min({start_at_, warn_at(), release_at_}); }

  // When the shell has to be told that the lease will end, if nothing else extends it.
  Instant warn_at() const {
    const Instant deadline = deadline_.load();
    if (!orders_.signal_when_lost || deadline == k_never || release_at_ != k_never) return k_never;
    return deadline - orders_.grace;
  }

  void on_time(Instant now) {
    if (now >= start_at_) start_at_ = renewer_.start() ? k_never : now + k_start_again;
    if (now >= release_at_) release_and_end("the lease could not be renewed");
    if (now < warn_at()) return;
    tell("the lease ends in " + format_duration(std::chrono::floor<milliseconds>(deadline_.load() - now)) +
             " and could not be renewed",
         signalled());
    orders_.shell.send(orders_.signal);
    release_at_ = deadline_.load();
    renewer_.stop();
  }

  void on(const Trouble& trouble) {
    tell("the lease can't be renewed just now: " + trouble.error.what, "trying again");
  }
  void on(const Recovered&) { tell("the lease is renewed again", {}); }
  void on(const Reclaimed&) {}
  void on(const Lost& lost) {
    const bool by_token = lost.removed && lost.removed->released;
    const bool wanted = orders_.signal_when_lost || lost.removed;
    if (lost.removed && !by_token)
      tell(*lost.removed);
    else if (!by_token && release_at_ == k_never)
      tell("the lease was lost: " + lost.why, wanted ? signalled() : "");
    if (!by_token && wanted && release_at_ == k_never) orders_.shell.send(orders_.signal);
    _exit(0);  // nothing of ours is left to release
  }
  void on(const StopAsked& asked) {
    if (asked.request.released) release_and_end("klock release");
    tell(asked.request);
    orders_.shell.send(orders_.signal);  // and the hold stays while it lives
  }

  std::string signalled() const { return "this shell is sent SIG" + signal_name(orders_.signal); }

  void tell(const StopRequest& order) {
    tell("the lock was released by force " + describe_order(order), signalled());
  }

  void tell(const std::string& what, const std::string& hint) {
    const Fd shells = orders_.shell.open_stderr();
    if (!shells || dup2(shells.get(), STDERR_FILENO) < 0) return;
    orders_.tell(what, hint);
    release_standard(orders_.shell.fd());
  }

  [[noreturn]] void release_and_end(const char* why) {
    renewer_.stop();
    const Instant now = BootClock::now();
    const Instant limit = std::min(deadline_.load(), now + k_release_time);
    orders_.session.explain_end(EventKind::gave_up, why);
    if (now < limit)
      static_cast<void>(orders_.session.release(limit, {}));
    else
      orders_.session.note_lost("the lease ended by itself before the release");
    _exit(0);
  }

  const KeeperOrders& orders_;
  Fd line_;
  Fd terminate_;
  Fd mark_;   // the hold is not dead while we live
  Fd timer_;  // counts time in suspend, which poll(2) does not
  std::atomic<Instant> deadline_;
  Renewer renewer_;
  Instant start_at_{};            // of the renewing
  Instant release_at_ = k_never;  // set: the shell was told that the lease ends
};

}  // namespace

Result<Keeper> Keeper::start(const KeeperOrders& orders) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_failure("cannot make a line to the keeper", errno);
  Fd ours = off_standard(Fd(ends[0]));
  Fd keepers = off_standard(Fd(ends[1]));
  const pid_t pid = fork();
  if (pid < 0) return system_failure("cannot start the keeper", errno);
  if (pid == 0) {
    ours.reset();
    KeeperProcess(std::move(keepers), orders).run();
  }
  keepers.reset();
  Keeper keeper(std::move(ours), pid);
  char word = 0;
  ssize_t got = -1;
  do got = read(keeper.line_.get(), &word, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) return failure(ErrorKind::system, "the keeper could not start");
  return keeper;
}

Keeper::~Keeper() {
  if (!line_) return;
  line_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void end_keepers(std::string_view id) {
  for (const pid_t pid : all_processes()) {
    if (!marks_hold(pid, id)) continue;
    const auto keeper = OtherProcess::open(pid);
    // Only now it is surely the one that we found.
    if (keeper && marks_hold(pid, id)) keeper->send(SIGTERM);
  }
}

Status Keeper::confirm() {
  if (send(line_.get(), &k_word, 1, MSG_NOSIGNAL) != 1)
    return system_failure("the keeper has ended already", errno);
  line_.reset();
  return {};
}

}  // namespace klock
