// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <optional>

namespace klock {

// Open-file-description locks of the kernel (fcntl(2), F_OFD_*). They belong to the open file description:
// every copy of the descriptor, in whatever process, shares them; they end with an explicit unlock, or when
// the last copy is closed. Locks of one description never conflict with each other and are not reported to
// it.
enum class ByteLock : short { shared = F_RDLCK, exclusive = F_WRLCK };

struct ByteRange {
  off_t start = 0;
  off_t length = 0;  // 0: up to the largest offset
};

// 0: locked. EAGAIN: another description has a lock in the way. Else an errno. Does not block.
int try_lock_bytes(int fd, ByteRange range, ByteLock kind);

// Blocks, without a limit, until locked. 0 or an errno; EINTR when a signal handler ran.
int wait_lock_bytes(int fd, ByteRange range, ByteLock kind);

// Cannot fail on a valid descriptor, except for want of kernel memory to split a range, which klock never
// does.
void unlock_bytes(int fd, ByteRange range);

struct ForeignLock {
  ByteRange range;
  ByteLock kind;
};

// Sets `found` to some lock of another description that `kind` would conflict with: with `shared` only
// exclusive ones are seen. 0 or an errno. Does not block, takes nothing, works on a read-only descriptor.
int find_lock(int fd, ByteRange range, ByteLock kind, std::optional<ForeignLock>& found);

}  // namespace klock
