// SPDX-License-Identifier: MIT
#include "store/redis/note_keeper.hpp"

#include "store/redis/client.hpp"
#include "store/redis/scripts.hpp"

namespace klock::redis {
namespace {

constexpr Duration k_time = std::chrono::milliseconds(300);
constexpr Duration k_rest = std::chrono::seconds(3);
constexpr std::size_t k_most_kept = 100;

bool is_undone(Cause cause) {
  return cause == Cause::no_contact || cause == Cause::later || cause == Cause::not_master ||
         cause == Cause::split;
}

}  // namespace

NoteKeeper::NoteKeeper(const Site& site, const std::vector<std::string_view>& common_keys)
    : keys_(common_keys.begin(), common_keys.end()), client_(std::make_unique<Client>(site, keys_.front())) {}
NoteKeeper::~NoteKeeper() {
  not_before_ = {};
  write();
}

void NoteKeeper::keep(std::string packed) {
  if (kept_.size() == k_most_kept) kept_.pop_front();
  kept_.push_back(std::move(packed));
}

void NoteKeeper::write() {
  const Instant now = BootClock::now();
  if (kept_.empty() || now < not_before_) return;
  ScriptCall call{scripts::k_notes, {}, {keys_.begin(), keys_.end()}, {kept_.begin(), kept_.end()}};
  const auto written = client_->call(call, now + k_time, Interrupt{});
  if (!written) not_before_ = BootClock::now() + k_rest;
  // What may have been done must not be noted twice.
  if (written || !is_undone(written.error().cause)) kept_.clear();
}

}  // namespace klock::redis
