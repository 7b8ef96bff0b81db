// SPDX-License-Identifier: MIT
#include "store/redlock/worker.hpp"

#include "util/signal_set.hpp"

#include <chrono>
#include <system_error>

namespace klock::redlock {
namespace {

// A hold asks several times within a moment.
constexpr auto k_linger = std::chrono::milliseconds(20);

}  // namespace

bool Worker::post(std::function<void()> task) {
  Locked locked(mutex_);
  tasks_.push_back(std::move(task));
  if (running_) {
    locked.unlock();
    news_.notify_one();
    return true;
  }
  if (thread_.joinable()) thread_.join();  // it has nothing more to do
  try {
    const Blocked blocked(all_signals());  // they are the main thread's business
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    tasks_.pop_back();
    return false;
  }
  running_ = true;
  return true;
}

void Worker::run() {
  Locked locked(mutex_);
  for (;;) {
    const auto end = std::chrono::steady_clock::now() + k_linger;
    while (!stopping_ && tasks_.empty() && locked.wait_until(news_, end)) {
    }
    if (tasks_.empty()) break;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    locked.unlock();
    task();
    locked.lock();
  }
  running_ = false;
}

void Worker::stop() {
  {
    const Locked locked(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
  const Locked locked(mutex_);
  stopping_ = false;
}

}  // namespace klock::redlock
