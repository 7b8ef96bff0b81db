// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/route.hpp"
#include "util/clock.hpp"

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

class Client;

// On a Cluster index, log and statistics lie in a slot of their own: what scripts on other servers have noted
// is written there after them (scripts/notes.lua). What can't be written is kept for the next time, as far as
// there is room; an event tells then when it was. One thread at a time.
class NoteKeeper {
 public:
  // `common_keys`: LockKeys::common().
  NoteKeeper(const Site& site, const std::vector<std::string_view>& common_keys);
  // Tries once more what is left.
  ~NoteKeeper();

  // `packed`: as the script has answered it.
  void keep(std::string packed);

  // Best effort: takes 300 ms at most, and nothing for some seconds after it failed.
  void write();

 private:
  const std::vector<std::string> keys_;
  const std::unique_ptr<Client> client_;
  std::deque<std::string> kept_;
  Instant not_before_{};
};

}  // namespace klock::redis
