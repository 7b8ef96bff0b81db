// SPDX-License-Identifier: MIT
#include "store/local/lock_file.hpp"

#include "store/local/lock_directory.hpp"
#include "store/local/seats.hpp"
#include "util/file_limit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace klock {
namespace {

constexpr off_t k_fence = off_t{1} << 37;
constexpr off_t k_caps = k_fence + 1;
constexpr off_t k_cap_limit = off_t{1} << 20;
constexpr off_t k_seats = off_t{1} << 38;
constexpr off_t k_marks = off_t{1} << 39;
constexpr off_t k_hold = off_t{1} << 40;
constexpr off_t k_edit = k_hold + (off_t{1} << 20);
constexpr off_t k_tickets = k_edit + 1;
constexpr off_t k_joins = off_t{1} << 61;
constexpr off_t k_joins_per_seat = off_t{1} << k_joiner_bits;
static_assert(k_tickets + LockFile::k_ticket_limit < k_joins);

// From k_alone on.
constexpr ByteRange k_all_joins{k_joins, (LockFile::k_seat_limit + 1) * k_joins_per_seat};
constexpr ByteRange k_fence_byte{k_fence, 1};
constexpr ByteRange k_of_holder{k_fence, k_edit - k_fence};
constexpr ByteRange k_hold_byte{k_hold, 1};
constexpr ByteRange k_edit_byte{k_edit, 1};
constexpr ByteRange k_all_marks{k_marks, k_hold - k_marks};
constexpr ByteRange k_from_hold{k_hold, k_joins - k_hold};
constexpr ByteRange k_from_edit{k_edit, k_joins - k_edit};
constexpr ByteRange k_everything{0, 0};

ByteRange joins_of(Seat seat) {
  return {k_joins + (seat - k_alone) * k_joins_per_seat, k_joins_per_seat};
}

ByteRange tickets_from(Ticket ticket) {
  return {k_tickets + ticket, k_joins - k_tickets - ticket};
}

}  // namespace

Result<std::shared_ptr<LockFile>> LockFile::open(const std::string& path, Open how, mode_t mode) {
  // NONBLOCK: a FIFO in this place must not hang us.
  const int flags = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | (how == Open::look ? O_RDONLY : O_RDWR);
  const bool shared = how == Open::create && (mode & 077) != 0;
  const mode_t before = shared ? umask(0) : 0;
  Fd fd(::open(path.c_str(), how == Open::create ? flags | O_CREAT : flags, mode));
  if (shared) umask(before);  // leaves errno alone
  // In a sticky directory open(2) with O_CREAT refuses another user's file (fs.protected_regular).
  if (!fd && errno == EACCES && how == Open::create) {
    fd.reset(::open(path.c_str(), flags));
    if (!fd && errno == ENOENT) errno = EACCES;
  }
  if (fd) return std::make_shared<LockFile>(path, std::move(fd));
  if (errno == ENOENT) return nullptr;
  return path_failure("cannot open", path, errno);
}

Result<LockFile::Condition> LockFile::condition() {
  struct stat info {};
  if (fstat(fd(), &info) != 0) return path_failure("cannot look at", path_, errno);
  if (!S_ISREG(info.st_mode)) return failure(ErrorKind::refused, path_ + " is not a regular file");
  // A hard link to some other file: writing our records into it could do damage.
  if (info.st_nlink > 1) return failure(ErrorKind::refused, path_ + " has a second name (hard link)");
  identity_ = Identity{info.st_dev, info.st_ino};
  return Condition{info.st_nlink != 0, info.st_size};
}

Result<bool> LockFile::is_current() {
  if (!identity_) KLOCK_CHECK(condition());
  struct stat there {};
  if (lstat(path_.c_str(), &there) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return path_failure("cannot look at", path_, errno);
  }
  // The inode cannot have been given to another file while we have it open.
  return there.st_ino == identity_->inode && there.st_dev == identity_->device;
}

off_t LockFile::size() const {
  struct stat info {};
  return fstat(fd(), &info) == 0 ? info.st_size : 0;
}

Result<bool> LockFile::try_lock(ByteRange range, ByteLock kind) {
  const int code = try_lock_bytes(fd(), range, kind);
  if (code != 0 && code != EAGAIN) return path_failure("cannot lock", path_, code);
  return code == 0;
}

Result<std::optional<ForeignLock>> LockFile::find(ByteRange range, ByteLock kind) const {
  std::optional<ForeignLock> found;
  if (const int code = find_lock(fd(), range, kind, found); code != 0)
    return path_failure("cannot query the locks of", path_, code);
  return found;
}

Result<bool> LockFile::try_hold() {
  return try_lock(k_hold_byte, ByteLock::exclusive);
}
Result<bool> LockFile::try_share() {
  return try_lock(k_hold_byte, ByteLock::shared);
}
Result<bool> LockFile::try_seat(Seat seat) {
  return try_lock({k_seats + seat, 1}, ByteLock::exclusive);
}
Result<bool> LockFile::try_cap(std::size_t slots) {
  return try_lock({k_caps + static_cast<off_t>(slots), 1}, ByteLock::shared);
}
Result<bool> LockFile::try_fence() {
  return try_lock(k_fence_byte, ByteLock::exclusive);
}
Result<bool> LockFile::try_join(Seat seat, Joiner joiner) {
  return try_lock({joins_of(seat).start + joiner, 1}, ByteLock::exclusive);
}
Result<bool> LockFile::try_edit() {
  return try_lock(k_edit_byte, ByteLock::exclusive);
}
Result<bool> LockFile::try_close() {
  return try_lock(k_from_edit, ByteLock::shared);
}
Result<bool> LockFile::try_mark(Ticket ticket) {
  return try_lock({k_marks + ticket, 1}, ByteLock::exclusive);
}

void LockFile::drop_hold() {
  unlock_bytes(fd(), k_of_holder);
}
void LockFile::drop_fence() {
  unlock_bytes(fd(), k_fence_byte);
}
void LockFile::drop_seat(Seat seat) {
  unlock_bytes(fd(), {k_seats + seat, 1});
}
void LockFile::drop_ticket(Ticket ticket) {
  unlock_bytes(fd(), ticket_byte(ticket));
}
void LockFile::drop_all() {
  unlock_bytes(fd(), k_everything);
}

Result<bool> LockFile::is_held() const {
  KLOCK_TRY(kind, hold_kind());
  return kind.has_value();
}

Result<std::optional<ByteLock>> LockFile::hold_kind() const {
  KLOCK_TRY(found, find(k_hold_byte, ByteLock::exclusive));
  if (!found) return std::nullopt;
  return found->kind;
}

Result<std::optional<std::size_t>> LockFile::other_cap(std::size_t slots) const {
  const off_t mine = k_caps + static_cast<off_t>(slots);
  KLOCK_TRY(below, find({k_caps, mine - k_caps}, ByteLock::exclusive));
  if (below) return static_cast<std::size_t>(below->range.start - k_caps);
  KLOCK_TRY(above, find({mine + 1, k_caps + k_cap_limit - mine - 1}, ByteLock::exclusive));
  if (above) return static_cast<std::size_t>(above->range.start - k_caps);
  return std::nullopt;
}

Result<bool> LockFile::is_joined() const {
  KLOCK_TRY(found, find(k_all_joins, ByteLock::shared));
  return found.has_value();
}

Result<bool> LockFile::is_joined(Seat seat) const {
  KLOCK_TRY(found, find(joins_of(seat), ByteLock::shared));
  return found.has_value();
}

Result<bool> LockFile::is_joined(Seat seat, Joiner joiner) const {
  KLOCK_TRY(found, find({joins_of(seat).start + joiner, 1}, ByteLock::shared));
  return found.has_value();
}

Result<std::vector<Seat>> LockFile::joined_seats() const {
  auto numbers = all_of(k_seat_limit + 1, [this](Seat from, Seat limit) -> Result<std::optional<Seat>> {
    if (from >= limit) return std::nullopt;
    KLOCK_TRY(found,
              find({k_joins + from * k_joins_per_seat, (limit - from) * k_joins_per_seat}, ByteLock::shared));
    if (!found) return std::nullopt;
    return (found->range.start - k_joins) / k_joins_per_seat;
  });
  if (numbers)
    for (Seat& number : *numbers) number += k_alone;
  return numbers;
}

ByteRange LockFile::join_bytes() {
  return k_all_joins;
}

Result<bool> LockFile::is_engaged() const {
  KLOCK_TRY(found, find(k_from_hold, ByteLock::shared));
  return found.has_value();
}

Result<bool> LockFile::is_edited() const {
  KLOCK_TRY(found, find(k_edit_byte, ByteLock::shared));
  return found.has_value();
}

Result<bool> LockFile::is_closing() const {
  KLOCK_TRY(found, find(k_edit_byte, ByteLock::exclusive));
  return found && found->kind == ByteLock::shared;
}

Result<bool> LockFile::is_contested() const {
  KLOCK_TRY(found, find(k_from_edit, ByteLock::shared));
  return found.has_value();
}

Result<std::optional<Ticket>> LockFile::holder_ticket() const {
  KLOCK_TRY(found, find(k_all_marks, ByteLock::shared));
  if (!found) return std::nullopt;
  return found->range.start - k_marks;
}

ByteRange LockFile::hold_byte() {
  return k_hold_byte;
}
ByteRange LockFile::ticket_byte(Ticket ticket) {
  return {k_tickets + ticket, 1};
}

// Some ticket in [from, limit): the kernel reports whichever lock it comes across first.
Result<std::optional<Ticket>> LockFile::any_ticket(Ticket from, Ticket limit) const {
  if (from >= limit) return std::nullopt;
  KLOCK_TRY(found, find({k_tickets + from, limit - from}, ByteLock::shared));
  if (!found) return std::nullopt;
  const Ticket ticket = found->range.start - k_tickets;
  // One that begins before is a ticket being taken (see take_ticket): nobody else is above it.
  if (ticket < from) return std::nullopt;
  return ticket;
}

// Leaps upwards with growing steps, as tickets lie close together: a few queries even for a long queue.
Result<std::optional<Ticket>> LockFile::last_ticket_before(Ticket limit) const {
  std::optional<Ticket> last;
  Ticket from = 0;
  for (;;) {
    KLOCK_TRY(found, any_ticket(from, limit));
    if (!found) return last;
    last = found;
    from = *found + 1;
    for (Ticket step = 1; from + step < limit; step *= 2) {
      KLOCK_TRY(above, any_ticket(from + step, limit));
      if (!above) {
        limit = from + step;
        break;
      }
      last = above;
      from = *above + 1;
    }
  }
}

// All numbers of [0, limit), ascending, where `any(from, limit)` finds some one.
template <class Any>
Result<std::vector<std::int64_t>> LockFile::all_of(std::int64_t limit, Any&& any) {
  struct Gap {
    std::int64_t from;
    std::int64_t limit;
  };
  std::vector<std::int64_t> numbers;
  std::vector<Gap> gaps{{0, limit}};
  while (!gaps.empty()) {
    const Gap gap = gaps.back();
    gaps.pop_back();
    KLOCK_TRY(found, any(gap.from, gap.limit));
    if (!found) continue;
    numbers.push_back(*found);
    gaps.push_back({gap.from, *found});
    gaps.push_back({*found + 1, gap.limit});
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Result<std::vector<Ticket>> LockFile::tickets_before(Ticket limit) const {
  return all_of(limit, [this](Ticket from, Ticket to) { return any_ticket(from, to); });
}

Result<std::vector<Seat>> LockFile::seats() const {
  return all_of(k_seat_limit, [this](Seat from, Seat limit) -> Result<std::optional<Seat>> {
    if (from >= limit) return std::nullopt;
    KLOCK_TRY(found, find({k_seats + from, limit - from}, ByteLock::shared));
    if (!found) return std::nullopt;
    return found->range.start - k_seats;
  });
}

// 1. we find the last ticket and are delayed  2. the queue empties and fills again, with other numbers  3.
// our number stands before those who came earlier. So lock it together with all above, which fails if anybody
// is there.
Result<std::optional<Ticket>> LockFile::take_ticket() {
  for (;;) {
    KLOCK_TRY(last, last_ticket_before(k_ticket_limit));
    const Ticket mine = last ? *last + 1 : 0;
    if (mine >= k_ticket_limit) return failure(ErrorKind::system, "the queue in " + path_ + " is full");
    KLOCK_TRY(taken, try_lock(tickets_from(mine), ByteLock::exclusive));
    if (taken) {
      unlock_bytes(fd(), tickets_from(mine + 1));
      return mine;
    }
    KLOCK_TRY(rival, any_ticket(mine, k_ticket_limit));
    if (!rival) return std::nullopt;
  }
}

void LockFile::touch() const {
  futimens(fd(), nullptr);
}

Status LockFile::unlink_now() {
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) return path_failure("cannot remove", path_, errno);
  return {};
}

std::string LockFile::read(off_t offset, std::size_t limit) const {
  std::string text(limit, '\0');
  ssize_t got = -1;
  do got = pread(fd(), text.data(), limit, offset);
  while (got < 0 && errno == EINTR);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

Status LockFile::write(off_t offset, std::string_view text) {
  std::string bytes(text);
  bytes += '\0';
  const NoFileLimitSignal quiet;
  ssize_t put = -1;
  do put = pwrite(fd(), bytes.data(), bytes.size(), offset);
  while (put < 0 && errno == EINTR);
  if (put != static_cast<ssize_t>(bytes.size()))
    return path_failure("cannot write to", path_, put < 0 ? errno : ENOSPC);
  return {};
}

void tidy_up(const std::string& path) {
  const auto opened = LockFile::open(path, LockFile::Open::existing);
  if (!opened || !*opened) return;
  LockFile& file = **opened;
  if (file.is_engaged().value_or(true)) return;
  // `close` before `hold`: a newcomer that meets our hold sees that it is about to pass, and does not call it
  // busy.
  if (!file.try_close().value_or(false) || !file.try_hold().value_or(false)) return;
  if (!file.condition() || !file.is_current().value_or(false)) return;
  if (file.is_joined().value_or(true) || reservation(file, Mode::exclusive)) return;
  (void)file.unlink_now();
}

}  // namespace klock
