// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <mutex>

// What a mutex guards is said where it is declared, and clang refuses code that forgets it ("Thread Safety
// Analysis" in its documentation; the fuzz preset is built by clang). For other compilers these are comments.
#ifdef __clang__
#define KLOCK_ANALYSED(attribute) __attribute__((attribute))
#else
#define KLOCK_ANALYSED(attribute)
#endif
#define KLOCK_GUARDED_BY(mutex) KLOCK_ANALYSED(guarded_by(mutex))

namespace klock {

class KLOCK_ANALYSED(capability("mutex")) Mutex {
 private:
  friend class Locked;
  std::mutex mutex_;
};

// Holds a mutex while it lives, but for what is between unlock() and lock().
class KLOCK_ANALYSED(scoped_lockable) Locked {
 public:
  explicit Locked(Mutex& mutex) KLOCK_ANALYSED(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~Locked() KLOCK_ANALYSED(release_capability()) {}
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  void unlock() KLOCK_ANALYSED(release_capability()) { lock_.unlock(); }
  void lock() KLOCK_ANALYSED(acquire_capability()) { lock_.lock(); }

  // Without the mutex meanwhile. False: the time is up.
  template <class Time>
  bool wait_until(std::condition_variable& news, Time time) {
    return news.wait_until(lock_, time) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace klock
