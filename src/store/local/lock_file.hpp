// SPDX-License-Identifier: MIT
#pragma once

#include "store/local/byte_locks.hpp"
#include "util/fd.hpp"
#include "util/result.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock {

// A place in the queue. Numbers grow in order of arrival as long as anybody is in the queue.
using Ticket = std::int64_t;

// Where one of several holders sits. Even numbers are slots, odd ones readers; k_alone: the exclusive holder.
using Seat = std::int64_t;
inline constexpr Seat k_alone = -1;

// Tells the runs that join a hold apart, see joiner_of().
using Joiner = std::int64_t;
inline constexpr int k_joiner_bits = 40;

// The file of one lock. Which processes hold and wait is decided by kernel locks on its bytes alone; all lie
// far beyond the content, which tells who they are and reserves the lock where there is no process
// (records.hpp). Damage to it can end a reservation, but does no harm to their exclusion or order.
//
//   fence     exclusive: one of several holders counts its fence (a moment)
//   cap n     shared: holds one of n slots
//   seat n    exclusive: one of several holders
//   mark n    exclusive: the exclusive holder came through ticket n (and keeps both as long as it holds)
//   hold      exclusive: the holder; shared: each of several
//   edit      exclusive: someone removes the holder's file; nobody may become the holder meanwhile
//   ticket n  exclusive: a waiter; it waits for the ticket before its own, the first one for `hold`. One of
//             several gives its ticket up when it gets in, so that the next one comes along
//   [edit, join) shared: someone who holds is about to unlink the file; nobody may queue up any more
//   join n,i  exclusive: run i has joined the hold at seat n; it stays for all who have
//
// A shared lock on one ticket is a successor that just learned that the ticket is free: it means nothing.
// A file is unlinked only under hold + [edit, join), so whoever gets a lock and then finds the file still
// linked has a lock that counts. Looking for exclusive locks only (a request for a shared one) in
// [hold, join) sees none of the shared kinds.
//
// Nothing blocks. All errors name the path. One thread at a time, but for the locks of a ByteWatch.
class LockFile {
 public:
  enum class Open { create, existing, look };  // look: read only

  // nullptr: there is no such file (never with `create`, unless the directory is missing too). A new file
  // gets `mode` whatever the umask, which is the process's: with `create` no other thread may make files
  // meanwhile.
  static Result<std::shared_ptr<LockFile>> open(const std::string& path, Open how, mode_t mode = 0600);
  LockFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  struct Condition {
    bool linked;  // false: unlinked; whatever is locked in it counts for nothing
    off_t size;
  };
  // Errors: refused for what cannot be a lock file of ours (not a regular file, or with a second name).
  Result<Condition> condition();
  // The path still leads here.
  Result<bool> is_current();
  off_t size() const;

  // Each true: it is ours now.
  Result<bool> try_hold();
  Result<bool> try_share();  // `hold`, with others
  Result<bool> try_seat(Seat seat);
  Result<bool> try_cap(std::size_t slots);
  Result<bool> try_fence();
  Result<bool> try_join(Seat seat, Joiner joiner);
  Result<bool> try_mark(Ticket ticket);
  Result<bool> try_edit();
  Result<bool> try_close();
  // nullopt: someone is in the midst of taking one, or about to unlink the file; look again.
  Result<std::optional<Ticket>> take_ticket();

  void drop_hold();  // all of a holder's; not the ticket
  void drop_fence();
  void drop_seat(Seat seat);
  void drop_ticket(Ticket ticket);
  void drop_all();  // everything of ours, also where a copy of the descriptor is open elsewhere

  // What others have.
  Result<bool> is_held() const;
  Result<std::optional<ByteLock>> hold_kind() const;
  Result<std::optional<std::size_t>> other_cap(std::size_t slots) const;  // held with another number of slots
  Result<std::vector<Seat>> seats() const;                                // ascending
  Result<bool> is_joined() const;                                         // any hold of it
  Result<bool> is_joined(Seat seat) const;
  Result<bool> is_joined(Seat seat, Joiner joiner) const;  // by that one
  Result<std::vector<Seat>> joined_seats() const;          // ascending, k_alone too
  Result<bool> is_engaged() const;                         // held, edited, or waited for
  Result<bool> is_edited() const;
  Result<bool> is_closing() const;
  Result<bool> is_contested() const;  // edited or waited for
  Result<std::optional<Ticket>> last_ticket_before(Ticket limit) const;
  Result<std::vector<Ticket>> tickets_before(Ticket limit) const;  // ascending, the holder's included
  Result<std::optional<Ticket>> holder_ticket() const;

  // Wakes everybody who looks at the file. Best effort.
  void touch() const;

  // Unlinks the file. Precondition: try_hold() and try_close(), or try_edit(), said yes and it is current.
  Status unlink_now();

  // Content. Reading stops at the first NUL or at `limit`; failures and nothing there give "".
  std::string read(off_t offset, std::size_t limit) const;
  Status write(off_t offset, std::string_view text);  // and a NUL behind it

  static constexpr Seat k_seat_limit = Seat{1} << 20;
  static constexpr Ticket k_ticket_limit = Ticket{1} << 39;
  static ByteRange hold_byte();
  static ByteRange ticket_byte(Ticket ticket);
  static ByteRange join_bytes();

 private:
  Result<bool> try_lock(ByteRange range, ByteLock kind);
  Result<std::optional<ForeignLock>> find(ByteRange range, ByteLock kind) const;
  Result<std::optional<Ticket>> any_ticket(Ticket from, Ticket limit) const;
  template <class Any>
  static Result<std::vector<std::int64_t>> all_of(std::int64_t limit, Any&& any);

  struct Identity {
    dev_t device;
    ino_t inode;
  };

  std::string path_;
  Fd fd_;
  std::optional<Identity> identity_;  // known once looked at
};

// Removes the file at `path` if nobody holds it, waits for it or is kept out by its cooldown. Best effort,
// never blocks.
void tidy_up(const std::string& path);

}  // namespace klock
