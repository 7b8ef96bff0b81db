// SPDX-License-Identifier: MIT
#include "store/local/byte_locks.hpp"

#include <cerrno>

namespace klock {
namespace {

struct flock request(ByteRange range, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.start;
  lock.l_len = range.length;
  return lock;
}

}  // namespace

int try_lock_bytes(int fd, ByteRange range, ByteLock kind) {
  struct flock lock = request(range, static_cast<short>(kind));
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

int wait_lock_bytes(int fd, ByteRange range, ByteLock kind) {
  struct flock lock = request(range, static_cast<short>(kind));
  return fcntl(fd, F_OFD_SETLKW, &lock) == 0 ? 0 : errno;
}

void unlock_bytes(int fd, ByteRange range) {
  struct flock lock = request(range, F_UNLCK);
  fcntl(fd, F_OFD_SETLK, &lock);
}

int find_lock(int fd, ByteRange range, ByteLock kind, std::optional<ForeignLock>& found) {
  struct flock lock = request(range, static_cast<short>(kind));
  found.reset();
  if (fcntl(fd, F_OFD_GETLK, &lock) != 0) return errno;
  if (lock.l_type != F_UNLCK) found = ForeignLock{{lock.l_start, lock.l_len}, ByteLock{lock.l_type}};
  return 0;
}

}  // namespace klock
