// SPDX-License-Identifier: MIT
// What is noted of a session of a store that keeps no log itself.
#include "journal/recording_store.hpp"

#include "support/fake_session.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace klock {
namespace {

using namespace std::chrono_literals;
using test::FakeSession;

// Its sessions get what `prepare` gives them.
class NotingStore final : public LockStore {
 public:
  std::string describe() const override { return "fake:"; }
  bool has_leases() const override { return true; }
  std::unique_ptr<LockSession> session(Claim) override {
    auto session = std::make_unique<FakeSession>();
    session->wakes = {[](Instant, Interrupt) { return Wake::timeout; }};
    session->attempts = attempts;
    session->renewals = renewals;
    return session;
  }
  Result<LockState> inspect(const LockName&, Instant, Interrupt) override { return LockState{}; }
  Result<std::vector<LockState>> list(const std::string&, Instant, Interrupt) override {
    return std::vector<LockState>{};
  }
  Result<Eviction> ask_stop(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return Eviction::done;
  }
  Result<Eviction> remove(const LockName&, const Holder&, const StopRequest&, Instant) override {
    return eviction;
  }
  Result<std::optional<Marker>> marker(const LockName&, const std::string&, Instant) override {
    return std::nullopt;
  }
  Result<bool> clear_marker(const LockName&, const std::string&, Instant) override { return false; }
  bool notes_events() const override { return false; }
  Status note(const Event& event, Instant, Interrupt) override {
    noted.push_back(event);
    return {};
  }
  Result<std::vector<GroupStatistics>> statistics(Instant, Interrupt) override {
    return std::vector<GroupStatistics>{};
  }
  Result<EventPage> events(const EventQuery&, Instant, Interrupt) override { return EventPage{noted, {}}; }
  Result<std::vector<Finding>> examine(Duration, Instant, Interrupt) override {
    return std::vector<Finding>{};
  }

  FakeSession::Script<Attempt> attempts;
  FakeSession::Script<Renewal> renewals;
  Eviction eviction = Eviction::done;
  std::vector<Event> noted;
};

class RecordingStoreTest : public testing::Test {
 protected:
  RecordingStoreTest() {
    auto inner = std::make_unique<NotingStore>();
    inner_ = inner.get();
    store_ = record_events(std::move(inner), {});
    claim_.lock = {"n", "klock:n"};
    claim_.token = Token{"0123456789abcdef0123456789abcdef"};
    claim_.ttl = 10s;
    claim_.who.user = "ann";
  }
  static Result<Attempt> held(Instant, Interrupt) {
    return Lease{BootClock::now(), BootClock::now() + 10s, 7};
  }
  static Result<Attempt> busy(Instant, Interrupt) { return Busy{}; }
  static Result<Renewal> renewed(Instant, Interrupt) { return Renewed{.deadline = BootClock::now() + 10s}; }

  std::vector<std::string> kinds() const {
    std::vector<std::string> found;
    for (const Event& event : inner_->noted) found.emplace_back(event_name(event.kind));
    return found;
  }
  Attempt attempt(LockSession& session, bool enqueue = true) {
    return session.attempt(enqueue, BootClock::now(), {}).value();
  }

  using Kinds = std::vector<std::string>;
  NotingStore* inner_;
  std::unique_ptr<LockStore> store_;
  Claim claim_;
};

TEST_F(RecordingStoreTest, AWaitAHoldAndItsEnd) {
  inner_->attempts = {busy, busy, held};
  const auto session = store_->session(claim_);
  for (int i = 0; i < 3; ++i) attempt(*session);
  session->explain_end(EventKind::gave_up, "exit 0");
  EXPECT_TRUE(session->release(BootClock::now(), {}));
  EXPECT_TRUE(session->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), (Kinds{"waiting", "acquired", "released"}));
  EXPECT_EQ(inner_->noted[1].fence, 7U);
  EXPECT_TRUE(inner_->noted[1].waited);
  EXPECT_EQ(inner_->noted[2].reason, "exit 0");
  EXPECT_TRUE(inner_->noted[2].held);
  for (const Event& event : inner_->noted) {
    EXPECT_EQ(event.id, "0123456789ab");
    EXPECT_EQ(event.who.user, "ann");
  }
}

TEST_F(RecordingStoreTest, TheCommandComesBeforeTheNoteOfItsHold) {
  inner_->attempts = {held};
  const auto session = store_->session(claim_);
  attempt(*session);
  EXPECT_EQ(kinds(), Kinds{});
  session->heed_start();
  session->heed_start();
  EXPECT_EQ(kinds(), Kinds{"acquired"});
  EXPECT_TRUE(session->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), (Kinds{"acquired", "released"}));
}

TEST_F(RecordingStoreTest, AScriptsHoldIsNotedAtOnce) {
  inner_->attempts = {held};
  claim_.for_script = true;
  attempt(*store_->session(claim_));
  EXPECT_EQ(kinds(), Kinds{"acquired"});
}

TEST_F(RecordingStoreTest, AWaiterThatLeaves) {
  inner_->attempts = {busy};
  const auto first = store_->session(claim_);
  attempt(*first);
  first->withdraw(BootClock::now());
  first->withdraw(BootClock::now());
  const auto second = store_->session(claim_);
  attempt(*second);
  second->explain_end(EventKind::timed_out, {});
  second->withdraw(BootClock::now());
  attempt(*store_->session(claim_), false);
  store_->session(claim_)->withdraw(BootClock::now());
  EXPECT_EQ(kinds(), (Kinds{"waiting", "gave_up", "waiting", "timed_out", "timed_out"}));
}

TEST_F(RecordingStoreTest, SkippedWork) {
  inner_->attempts = {[](Instant, Interrupt) { return Completed{}; }};
  attempt(*store_->session(claim_));
  EXPECT_EQ(kinds(), Kinds{"skipped"});
}

TEST_F(RecordingStoreTest, AJoinedHoldIsItsHoldersAffair) {
  inner_->attempts = {[](Instant, Interrupt) { return Lease{BootClock::now(), k_never, 7, true}; }};
  const auto session = store_->session(claim_);
  attempt(*session);
  EXPECT_TRUE(session->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), Kinds{});
}

TEST_F(RecordingStoreTest, ALossIsToldOnce) {
  inner_->attempts = {held};
  inner_->renewals = {renewed, [](Instant, Interrupt) { return Gone{}; }};
  const auto session = store_->session(claim_);
  attempt(*session);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(session->renew(BootClock::now(), {}));
  session->note_lost("again");
  EXPECT_EQ(kinds(), (Kinds{"acquired", "lost"}));
}

TEST_F(RecordingStoreTest, WhoRemovesItTells) {
  inner_->attempts = {held};
  inner_->renewals = {[](Instant, Interrupt) { return Gone{StopRequest{"bob@db2", "stuck"}}; }};
  const auto session = store_->session(claim_);
  attempt(*session);
  EXPECT_TRUE(session->renew(BootClock::now(), {}));
  EXPECT_EQ(kinds(), Kinds{"acquired"}) << "not the holder";
  Holder shown;
  shown.id = "0123456789ab";
  shown.who.pid = 7;
  EXPECT_TRUE(store_->remove(claim_.lock, shown, {"bob@db2", "stuck"}, BootClock::now()));
  EXPECT_EQ(kinds(), (Kinds{"acquired", "forced"}));
  EXPECT_EQ(inner_->noted[1].by, "bob@db2");
  inner_->eviction = Eviction::changed;
  EXPECT_TRUE(store_->remove(claim_.lock, shown, {}, BootClock::now()));
  EXPECT_EQ(inner_->noted.size(), 2U);
}

TEST_F(RecordingStoreTest, AnOrderThatIsObeyed) {
  inner_->attempts = {held};
  inner_->renewals = {[](Instant, Interrupt) {
    return Renewed{.deadline = BootClock::now() + 10s, .stop = StopRequest{"bob@db2", "stuck"}};
  }};
  const auto session = store_->session(claim_);
  attempt(*session);
  EXPECT_TRUE(session->renew(BootClock::now(), {}));
  EXPECT_TRUE(session->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), (Kinds{"acquired", "forced"}));
  EXPECT_EQ(inner_->noted[1].reason, "stuck");
}

TEST_F(RecordingStoreTest, TheLastWillOfTheGuard) {
  const auto last_will = [&] {
    const auto session = store_->session(claim_);
    session->explain_end(EventKind::gave_up, "klock was killed");
    EXPECT_TRUE(session->release(BootClock::now(), {}));
  };
  last_will();
  EXPECT_EQ(kinds(), Kinds{}) << "main was killed before it told of the hold";
  Event begun;
  begun.lock = claim_.lock;
  begun.id = claim_.token.id();
  inner_->noted = {begun};
  last_will();
  EXPECT_EQ(kinds(), (Kinds{"acquired", "released"}));
  EXPECT_EQ(inner_->noted[1].reason, "klock was killed");
}

TEST_F(RecordingStoreTest, AReleaseByTokenIsToldByTheProcessThatKeepsIt) {
  claim_.by_token = true;
  inner_->renewals = {[](Instant, Interrupt) { return Renewed{}; }};
  EXPECT_TRUE(store_->session(claim_)->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), Kinds{});
  inner_->renewals = {renewed};
  EXPECT_TRUE(store_->session(claim_)->release(BootClock::now(), {}));
  EXPECT_EQ(kinds(), Kinds{"released"});
}

}  // namespace
}  // namespace klock
