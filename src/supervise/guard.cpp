// SPDX-License-Identifier: MIT
#include "supervise/guard.hpp"

#include "supervise/guard_descriptors.hpp"
#include "supervise/process_group.hpp"
#include "supervise/signals.hpp"
#include "supervise/spawn.hpp"
#include "util/procfs.hpp"
#include "util/signal_set.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace klock {
namespace {

using std::chrono::milliseconds;

constexpr int k_settled_ms = 2;  // a lock that is free takes less
constexpr Duration k_first_pause = milliseconds(1);
constexpr Duration k_longest_pause = milliseconds(20);

int wait_status(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

// One command's way, from its start until all that had to die is dead.
struct Course {
  ProcessGroup group_;  // whom forwarded signals reach
  ProcessGroup all_;    // who must be dead in the end; with --tree that is more
  bool own_group_ = true;
  bool keep_leader_ = true;  // as a zombie, so that the group's number stays ours
  pid_t command_ = 0;
  bool command_dead_ = false;
  int status_ = 0;
  StopCause cause_ = StopCause::none;
  bool asked_to_end_ = false;  // a signal that asks for it was forwarded
  Instant kill_at_ = k_never;
  bool killing_ = false;
  Instant look_at_ = k_never;  // while waiting for the rest to die
  Duration pause_ = k_first_pause;
};

class Guard : private Course {
 public:
  Guard(Fd line, GuardPage& page, const JobOptions& options)
      : line_(std::move(line)), page_(page), options_(options) {}
  [[noreturn]] void run();

 private:
  void settle();
  Duration kill_after() const { return page_.kill_after(options_); }
  Duration margin() const { return kill_margin(kill_after()); }
  std::vector<int> ours() const;
  void close_mains();
  void make_room();
  bool take_holds(const msghdr& message, std::size_t count);
  void hear(short events);
  void start(const Order& order);
  [[noreturn]] void not_started(int error);
  void forward(int signal);
  void lose_main();
  [[noreturn]] void leave();

  void tend();
  void collect();
  void on_child(const siginfo_t& info);
  void reap(pid_t pid) const;
  StopCause stop_due(Instant now) const;
  Instant next_stop() const;
  Instant kill_due() const;
  Instant next_due() const;
  void begin_stop(StopCause cause, Instant now);
  void settle_rest(Instant now);
  void finish();
  void report(ReportKind kind, int value) const;

  bool closed_ = false;  // main's descriptors
  Fd line_;              // closed: main is gone
  Fd signals_;
  Fd timer_;
  std::vector<Fd> holds_;  // while they are open the locks are held (kernel locks)
  GuardPage& page_;
  const JobOptions& options_;
  std::optional<Instant> armed_for_ = k_never;  // nullopt: it has fired
  Instant max_hold_at_ = k_never;
  bool check_comes_ = !options_.check.empty();  // before the command
};

void Guard::run() {
  settle();
  for (;;) {
    if (const Instant due = next_due(); due != armed_for_) {
      arm_timer(timer_.get(), due);
      armed_for_ = due;
    }
    std::array<pollfd, 3> fds{pollfd{line_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0},
                              pollfd{timer_.get(), POLLIN, 0}};
    // Main's descriptors are closed when there is time: usually the start comes first, and closes all.
    const int ready = poll(fds.data(), fds.size(), closed_ ? -1 : k_settled_ms);
    if (ready == 0) close_mains();
    if (ready > 0) {
      if (fds[2].revents != 0) armed_for_.reset();  // arming it anew makes it unreadable
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        [[maybe_unused]] const ssize_t drained = read(signals_.get(), &info, sizeof info);
      }
      if (fds[0].revents != 0) hear(fds[0].revents);
    }
    if (command_ != 0) tend();
  }
}

void Guard::settle() {
  // A group of its own: what the terminal or a shell sends to klock's whole group (KILL, STOP, Ctrl-Z) must
  // not take the guard along. The name: `killall klock` must not either.
  setpgid(0, 0);
  prctl(PR_SET_NAME, k_guard_name);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t all = all_signals();
  sigprocmask(SIG_SETMASK, &all, nullptr);
  line_ = off_standard(std::move(line_));
  for (int round = 0; round < 2 && (!signals_ || !timer_); ++round) {
    if (round > 0) close_mains();  // there are no more descriptors to be had
    const sigset_t child = only(SIGCHLD);
    signals_ = off_standard(Fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)));
    timer_ = off_standard(Fd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)));
  }
  if (!line_ || !signals_ || !timer_) _exit(1);  // main notices
}

std::vector<int> Guard::ours() const {
  std::vector<int> kept{line_.get(), signals_.get(), timer_.get()};
  for (const Fd& hold : holds_) kept.push_back(hold.get());
  return kept;
}

void Guard::close_mains() {
  close_descriptors_of_main(ours());
  closed_ = true;
}

// Before a command: the descriptors that come with the next order, and find no place, are lost.
void Guard::make_room() {
  Order order;
  if (recv(line_.get(), &order, sizeof order, MSG_DONTWAIT | MSG_PEEK) <= 0 || order.holds == 0) return;
  holds_.clear();  // main has them too
  std::vector<Fd> places;
  for (std::int32_t i = 0; i < order.holds; ++i)
    if (!places.emplace_back(fcntl(line_.get(), F_DUPFD_CLOEXEC, 0))) return close_mains();
}

// False: not all of them are here.
bool Guard::take_holds(const msghdr& message, std::size_t count) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return count == 0;
  std::vector<int> fds((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(fds.data(), CMSG_DATA(header), fds.size() * sizeof(int));
  holds_.clear();  // those that came for the check
  for (const int fd : fds) holds_.push_back(off_standard(Fd(fd)));
  return holds_.size() == count &&
         std::all_of(holds_.begin(), holds_.end(), [](const Fd& hold) { return bool(hold); });
}

void Guard::hear(short events) {
  const bool main_is_there = (events & (POLLHUP | POLLERR)) == 0;
  for (;;) {
    if (command_ == 0) make_room();
    Order order;
    iovec data{&order, sizeof order};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * k_most_holds)> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(line_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return lose_main();
    if (!take_holds(message, static_cast<std::size_t>(order.holds))) return not_started(EMFILE);
    if (order.kind == OrderKind::start && main_is_there) start(order);
    if (order.kind == OrderKind::forward) forward(order.value);
  }
}

void Guard::start(const Order& order) {
  const Instant now = BootClock::now();
  if (options_.stop_at_deadline && now >= page_.deadline() - margin()) {
    // Suspended or starved since the lock was acquired.
    holds_.clear();
    report(ReportKind::too_late, 0);
    _exit(0);
  }
  if (options_.max_hold > Duration::zero() && max_hold_at_ == k_never) max_hold_at_ = now + options_.max_hold;
  const Program program = check_comes_ ? Program{options_.check, options_.check_program, true}
                                       : Program{options_.argv, options_.program};
  const int error = spawn_command(program, options_, order.value, page_);
  if (error != 0) not_started(error);
  command_ = page_.command.load();
  own_group_ = order.value == 0;
  keep_leader_ = own_group_ && !options_.tree;
  const pid_t group = own_group_ ? command_ : order.value;
  group_ = ProcessGroup(own_group_ ? Scope::own_group : Scope::shared_group, command_, group);
  all_ = options_.tree ? ProcessGroup(Scope::tree, command_, group) : group_;
  if (options_.tell_start) report(ReportKind::started, command_);
  if (check_comes_) return close_mains();
  release_standard(signals_.get());
  close_all_but(ours());
  closed_ = true;
}

void Guard::not_started(int error) {
  holds_.clear();
  report(ReportKind::not_started, error);
  _exit(0);
}

void Guard::forward(int signal) {
  if (command_ == 0) return;
  (command_dead_ ? all_ : group_).signal(signal);
  if (!asks_to_end(signal)) return;
  asked_to_end_ = true;
  look_at_ = k_never;
  if (options_.bound_forwarded && !command_dead_)
    kill_at_ = std::min(kill_at_, BootClock::now() + kill_after());
}

void Guard::lose_main() {
  line_.reset();
  if (command_ == 0) leave();
}

// Main is gone, and nothing of the command lives.
void Guard::leave() {
  if (!closed_) close_mains();
  release_standard(signals_.get());
  holds_.clear();
  if (options_.last_will) options_.last_will(command_ != 0 && !check_comes_);
  _exit(0);
}

// What the time, the page and the children ask for. The deadline comes first: we may just have been resumed.
void Guard::tend() {
  const Instant now = BootClock::now();
  if (cause_ == StopCause::none)
    if (const StopCause cause = stop_due(now); cause != StopCause::none) begin_stop(cause, now);
  if (BootClock::now() >= kill_due()) killing_ = true;  // asking for the end takes time too
  if (killing_) all_.signal(SIGKILL);                   // each time: a member may have been born meanwhile
  collect();
  if (command_dead_) settle_rest(now);
}

void Guard::collect() {
  // The leader of the command's own group stays a zombie to the end, and would be shown each time.
  while (!(command_dead_ && keep_leader_)) {
    siginfo_t info{};
    const int suspended = own_group_ ? WSTOPPED : 0;
    if (waitid(P_ALL, 0, &info, WEXITED | suspended | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    on_child(info);
  }
}

void Guard::on_child(const siginfo_t& info) {
  const bool is_command = info.si_pid == command_ && !command_dead_;
  if (info.si_code == CLD_STOPPED) {
    siginfo_t taken{};
    waitid(P_PID, static_cast<id_t>(info.si_pid), &taken, WSTOPPED | WNOHANG);
    const int signal = info.si_status;
    if (is_command && (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU))
      report(ReportKind::suspended, signal);
    return;
  }
  if (!is_command) return reap(info.si_pid);
  status_ = wait_status(info);
  command_dead_ = true;
  if (keep_leader_) return;
  reap(command_);
  group_.forget_command();
  all_.forget_command();
}

void Guard::reap(pid_t pid) const {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
}

StopCause Guard::stop_due(Instant now) const {
  if (!line_) return StopCause::main_gone;
  if (const StopCause wish = page_.stop.load(); wish != StopCause::none) return wish;
  if (now >= max_hold_at_) return StopCause::max_hold;
  if (now >= next_stop()) return StopCause::deadline;
  return StopCause::none;
}

// When a stop for the sake of the deadline has to begin.
Instant Guard::next_stop() const {
  const Instant deadline = page_.deadline();
  if (!options_.stop_at_deadline || deadline == k_never) return k_never;
  return deadline - std::max(kill_after(), margin());
}

Instant Guard::kill_due() const {
  if (cause_ == StopCause::none || !options_.stop_at_deadline || page_.deadline() == k_never) return kill_at_;
  return std::min(kill_at_, page_.deadline() - margin());
}

Instant Guard::next_due() const {
  if (command_ == 0) return k_never;
  Instant due = look_at_;
  if (cause_ == StopCause::none) due = std::min({due, next_stop(), max_hold_at_});
  if (!killing_) due = std::min(due, kill_due());
  return due;
}

void Guard::begin_stop(StopCause cause, Instant now) {
  cause_ = cause;
  look_at_ = k_never;
  kill_at_ = std::min(kill_at_, now + kill_after());
  if (now >= kill_due()) return;
  all_.signal(options_.stop_signal);
  all_.signal(SIGCONT);
}

// The command itself has ended; does anything else keep us?
void Guard::settle_rest(Instant now) {
  if (cause_ == StopCause::none && !asked_to_end_) {
    // What it left in the background is none of our business, except with --tree: then the last one's end
    // wakes us. For a run that has joined our hold the store keeps it.
    if (!options_.tree || !all_.alive()) finish();
    return;
  }
  if (kill_at_ == k_never) kill_at_ = now + kill_after();
  if (look_at_ != k_never && now < look_at_) return;
  if (!all_.alive()) return finish();
  look_at_ = now + pause_;
  pause_ = std::min(pause_ * 2, k_longest_pause);
}

void Guard::finish() {
  if (keep_leader_) reap(command_);
  if (!line_) leave();
  if (!check_comes_) holds_.clear();
  report(ReportKind::ended, status_);
  if (!std::exchange(check_comes_, false)) _exit(0);
  static_cast<Course&>(*this) = Course{};
}

void Guard::report(ReportKind kind, int value) const {
  const Report message{kind, value, static_cast<std::int32_t>(cause_)};
  send(line_.get(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

void be_the_guard(Fd line, GuardPage& page, const JobOptions& options) {
  Guard(std::move(line), page, options).run();
}

}  // namespace klock
