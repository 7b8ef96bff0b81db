// SPDX-License-Identifier: MIT
#pragma once

#include "store/redlock/worker.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/interrupt.hpp"
#include "util/mutex.hpp"
#include "util/result.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace klock::redlock {

// What each server answered, in their order; nullopt: nothing yet.
template <class Answer>
using Answers = std::vector<std::optional<Result<Answer>>>;

// Of a call that tells nothing but whether it went well.
inline Result<bool> answer_of(Status status) {
  if (!status) return tl::unexpected(std::move(status).error());
  return true;
}

// Whether the answers that there are will do. nearly: others are waited for as long as the grace.
enum class Enough { no, nearly, yes };

// How long to wait for answers: until `deadline`, and once there are nearly enough for `grace`. What
// interrupt() overtakes before a server's turn has come is not asked of it any more, unless it is `pressing`:
// what gives something back has to follow what took it.
struct Patience {
  Instant deadline;
  Duration grace{};
  bool pressing = false;
};

// Several servers, each with a Subject (a session, a store) of its own and a worker that deals with it, so
// that none waits for another. One thread at a time.
template <class Subject>
class Servers {
 public:
  explicit Servers(std::vector<std::unique_ptr<Subject>> subjects) {
    for (auto& subject : subjects) members_.push_back(std::make_unique<Member>(std::move(subject)));
  }
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  // What is still under way is interrupted; see interrupt().
  ~Servers() { stop(); }

  std::size_t size() const { return members_.size(); }

  // Calls `question(subject, index, interrupt)`, which returns a Result<Answer>, for all at once, and waits
  // until `enough(answers)` (asked after each answer) is yes, all have answered, the patience ends or the
  // caller is interrupted (then `interrupted` is set). Whoever has not answered by then goes on, and is asked
  // the next thing when it has; so `question` must own what it works with, and bound its own time.
  template <class Answer, class Ask, class IsEnough>
  Answers<Answer> ask(Ask question, IsEnough enough, Patience patience, Interrupt interrupt,
                      bool& interrupted) {
    const auto round = std::make_shared<Round<Answer>>(members_.size());
    if (!renew_interrupt() || !round->news) {
      const Result<Answer> none = system_failure("cannot ask the servers", errno);
      return Answers<Answer>(members_.size(), none);
    }
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = *members_[i];
      const bool posted =
          member.worker.post([round, question, i, &member, over = over_, pressing = patience.pressing] {
            const Interrupt raised{over->get()};
            if (!pressing && wait_ready(-1, 0, Instant{}, raised) == Ready::interrupted)
              round->put(i, failure(ErrorKind::unreachable, "interrupted"));
            else
              round->put(i, question(*member.subject, i, raised));
          });
      if (!posted) round->put(i, failure(ErrorKind::system, "cannot start a thread for each server"));
    }
    return wait<Answer>(*round, enough, patience, interrupt, interrupted);
  }

  // What is still under way gives up at once; what was sent stays sent.
  void interrupt() {
    if (over_) eventfd_write(over_->get(), 1);
    over_.reset();
  }

  // The same, and waits for it: after that there is no thread.
  void stop() {
    interrupt();
    for (const auto& member : members_) member->worker.stop();
  }

 private:
  struct Member {
    explicit Member(std::unique_ptr<Subject> its) : subject(std::move(its)) {}
    const std::unique_ptr<Subject> subject;
    Worker worker;  // ends before the subject does
  };

  // Lives until the last one has answered.
  template <class Answer>
  struct Round {
    explicit Round(std::size_t count) : answers(count), news(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    void put(std::size_t index, Result<Answer> answer) {
      const Locked locked(mutex);
      answers[index] = std::move(answer);
      eventfd_write(news.get(), 1);
    }

    Mutex mutex;
    Answers<Answer> answers KLOCK_GUARDED_BY(mutex);
    const Fd news;
  };

  bool renew_interrupt() {
    if (!over_) over_ = std::make_shared<Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return static_cast<bool>(*over_);
  }

  template <class Answer, class IsEnough>
  static Answers<Answer> wait(Round<Answer>& round, const IsEnough& enough, Patience patience,
                              Interrupt interrupt, bool& interrupted) {
    std::optional<Instant> end;  // of the grace
    for (;;) {
      const Instant until = end ? std::min(*end, patience.deadline) : patience.deadline;
      const Ready ready = wait_ready(round.news.get(), POLLIN, until, interrupt);
      const Locked locked(round.mutex);
      eventfd_t count = 0;
      eventfd_read(round.news.get(), &count);
      interrupted = ready == Ready::interrupted;
      if (ready != Ready::descriptor) return round.answers;
      bool all = true;
      for (const auto& answer : round.answers) all &= answer.has_value();
      if (all) return round.answers;
      const Enough there = enough(std::as_const(round.answers));
      if (there == Enough::yes) return round.answers;
      if (there == Enough::nearly && !end) end = BootClock::now() + patience.grace;
    }
  }

  std::shared_ptr<Fd> over_;  // interrupts what has been asked since it was made
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace klock::redlock
