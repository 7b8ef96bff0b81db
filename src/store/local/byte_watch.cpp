// SPDX-License-Identifier: MIT
#include "store/local/byte_watch.hpp"

#include "util/signal_set.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace klock {

std::shared_ptr<ByteWatch> ByteWatch::start(std::shared_ptr<LockFile> file, ByteRange byte, For what) {
  Fd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return nullptr;
  auto watch = std::make_shared<ByteWatch>(std::move(file), byte, what, std::move(event));
  auto* owner = new std::shared_ptr<ByteWatch>(watch);

  constexpr std::size_t k_stack = 256UL * 1024;  // address space only; a page or two are touched
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, k_stack);
  pthread_t thread{};
  const int code = [&] {
    const Blocked blocked(all_signals());  // they are the business of the other threads
    return pthread_create(&thread, &attributes, &ByteWatch::thread_main, owner);
  }();
  pthread_attr_destroy(&attributes);
  if (code == 0) return watch;
  delete owner;
  return nullptr;
}

ByteWatch::ByteWatch(std::shared_ptr<LockFile> file, ByteRange byte, For what, Fd event)
    : file_(std::move(file)), byte_(byte), what_(what), event_(std::move(event)) {}

void* ByteWatch::thread_main(void* self) {
  auto* owner = static_cast<std::shared_ptr<ByteWatch>*>(self);
  (*owner)->run();
  delete owner;
  return nullptr;
}

void ByteWatch::run() {
  const ByteLock kind = what_ == For::take ? ByteLock::exclusive : ByteLock::shared;
  do code_ = wait_lock_bytes(file_->fd(), byte_, kind);
  while (code_ == EINTR && state_.load(std::memory_order_relaxed) == State::waiting);
  if (code_ == 0 && what_ == For::learn) unlock_bytes(file_->fd(), byte_);

  State expected = State::waiting;
  if (!state_.compare_exchange_strong(expected, State::finished, std::memory_order_acq_rel)) {
    if (code_ == 0 && what_ != For::learn) unlock_bytes(file_->fd(), byte_);
    return;
  }
  const std::uint64_t one = 1;
  while (write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void ByteWatch::abandon() {
  State expected = State::waiting;
  state_.compare_exchange_strong(expected, State::abandoned, std::memory_order_acq_rel);
}

}  // namespace klock
