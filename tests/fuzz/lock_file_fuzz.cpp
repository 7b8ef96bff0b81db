// SPDX-License-Identifier: MIT
#include "fuzz/fuzz.hpp"
#include "store/local/records.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

using namespace klock;

// A lock file with any content at all.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static LockFile& file = *new LockFile(
      "fuzz", Fd(memfd_create("fuzz", MFD_CLOEXEC)));  // never destroyed: it lives as long as we
  // The regions lie far apart: the content is laid at the start of each.
  if (ftruncate(file.fd(), 0) != 0) return 0;
  for (const off_t offset : {0, 4096, 8128, 8192, 532480, 536576})
    if (pwrite(file.fd(), data, size, offset) < 0) return 0;
  for (const Seat seat : {k_alone, Seat{0}}) {
    const auto hold = read_hold(file, seat);
    to_holder(hold);
    if (!hold) continue;
    reserved_until(file, *hold, seat);
    detached_until(file, *hold, seat);
    belongs_to(*hold, "fuzz");
    fuzz::require(write_hold(file, *hold, seat).has_value(), "a record fits into its place");
    const auto again = read_hold(file, seat);
    fuzz::require(again && (hold->id.size() > 64 || again->id == hold->id) && again->fence == hold->fence &&
                      again->reserved_until_ns == hold->reserved_until_ns,
                  "a record that is written again means the same");
    read_stop(file, hold->id, seat);
  }
  read_fence(file);
  read_wait(file, 0);
  seat_records(file);
  return 0;
}
