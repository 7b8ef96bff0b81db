// SPDX-License-Identifier: MIT
#pragma once

#include "store/local/lock_file.hpp"
#include "util/fd.hpp"

#include <atomic>
#include <memory>

namespace klock {

// A thread that blocks until one byte of a lock file is free and then makes a descriptor readable: the
// kernel's blocking lock cannot be waited for together with other descriptors. With `take` and `share` the
// byte is locked then, for the file's whole open file description; with `learn` it is left as it is.
//
// Nothing can end the thread's wait before its time. An abandoned one sleeps on, keeps the file's description
// open, and gives the byte back when it wakes. So after abandon() the description must not be used for that
// very byte.
class ByteWatch {
 public:
  enum class For { learn, share, take };

  // nullptr: no thread or descriptor to be had; the caller polls instead.
  static std::shared_ptr<ByteWatch> start(std::shared_ptr<LockFile> file, ByteRange byte, For what);

  // Use start().
  ByteWatch(std::shared_ptr<LockFile> file, ByteRange byte, For what, Fd event);

  int event_fd() const { return event_.get(); }  // readable once finished()
  bool finished() const { return state_.load(std::memory_order_acquire) == State::finished; }
  bool took_byte() const { return finished() && code_ == 0 && what_ != For::learn; }
  bool failed() const { return finished() && code_ != 0; }

  // From now on the thread keeps nothing. A byte that it has locked before is the caller's to unlock.
  void abandon();

 private:
  enum class State { waiting, finished, abandoned };
  static void* thread_main(void* self);
  void run();

  const std::shared_ptr<LockFile> file_;
  const ByteRange byte_;
  const For what_;
  const Fd event_;
  int code_ = 0;  // written before `finished`
  std::atomic<State> state_{State::waiting};
};

}  // namespace klock
