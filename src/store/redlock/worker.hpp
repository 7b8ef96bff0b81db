// SPDX-License-Identifier: MIT
#pragma once

#include "util/mutex.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

namespace klock::redlock {

// Does what it is given in a thread, one thing after the other. The thread lives only while there is
// something to do and a moment longer, so a process that waits has none, and can fork after stop(). All
// signals are blocked there. One thread at a time may post and stop.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { stop(); }

  // After everything posted before. False: no thread could be started, and the task is dropped. A task must
  // not throw.
  bool post(std::function<void()> task);

  // Blocks until everything posted has been done and the thread has ended.
  void stop();

 private:
  void run();

  Mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> tasks_ KLOCK_GUARDED_BY(mutex_);
  bool running_ KLOCK_GUARDED_BY(mutex_) = false;
  bool stopping_ KLOCK_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace klock::redlock
