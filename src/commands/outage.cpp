// SPDX-License-Identifier: MIT
#include "commands/outage.hpp"

#include "lease/claim_event.hpp"
#include "output/human_time.hpp"
#include "store/unlocked_store.hpp"

#include <algorithm>

namespace klock {
namespace {

Milliseconds whole(Duration time) {
  return std::chrono::floor<Milliseconds>(time);
}

Event event_of(EventKind kind, const Claim& claim, std::string reason) {
  Event event = klock::event_of(kind, claim);
  event.reason = std::move(reason);
  return event;
}

}  // namespace

std::unique_ptr<LockStore> open_elsewhere(const Context& context, Ground ground) {
  return ground == Ground::host ? open_host_store(context) : open_unlocked_store();
}

void Outage::begin(std::vector<Claim> claims) {
  claims_ = std::move(claims);
  since_ = BootClock::now();
}

Status Outage::note(EventKind kind, const Claim& claim, const std::string& reason,
                    std::optional<Duration> away) {
  if (!host_) host_ = open_host_store(context_);
  Event event = event_of(kind, claim, reason);
  if (away) event.late = whole(*away);
  return host_->note(event, k_never, {});
}

void Outage::observe(WaitPolicy& policy) {
  policy.on_away = [this](const Error& error) {
    away_ = true;
    since_ = BootClock::now();
    static_cast<void>(note(EventKind::waiting, first(), told(error)));
    const std::string text =
        about(first().lock.name, error.what, context_.store->describe(), "waiting for it");
    waits() ? context_.say.tell(text) : context_.say.explain(text);
  };
  policy.on_back = [this](Duration away) {
    away_ = false;
    static_cast<void>(note(EventKind::reconnected, first(), context_.store->describe(), away));
    const std::string text =
        about(first().lock.name, "the store is back after " + human_duration(whole(away)),
              context_.store->describe(), {});
    waits() ? context_.say.tell(text) : context_.say.explain(text);
  };
}

void Outage::end(const std::string& why) {
  if (away_) static_cast<void>(note(EventKind::gave_up, first(), why));
  away_ = false;
}

std::optional<Context> Outage::way_out(Error& error) {
  if (!may_pass(error.kind)) {
    end(error.what);
    return std::nullopt;
  }
  const IfUnavailable choice = context_.settings.if_unavailable.value;
  const bool on = choice == IfUnavailable::local || choice == IfUnavailable::run;
  const bool once = std::any_of(claims_.begin(), claims_.end(), [](const Claim& one) { return one.once; });
  if (!on || once || error.kind != ErrorKind::unreachable) {
    static_cast<void>(note(EventKind::gave_up, first(), told(error)));
    away_ = false;
    if (on && once) error.hint = "with --once nothing is run: only the store knows whether the work was done";
    return std::nullopt;
  }
  ground_ = choice == IfUnavailable::local ? Ground::host : Ground::nowhere;
  error_ = error;
  return Context{context_.settings, context_.say, open_elsewhere(context_, ground_)};
}

const char* Outage::how() const {
  return ground_ == Ground::host ? "goes on under the lock of this host alone" : "goes on without a lock";
}

void Outage::tell_detour() const {
  if (ground_ == Ground::store) return;
  context_.say.tell(about(first().lock.name, error_.what, context_.store->describe(),
                          std::string(how()) + ", as --if-unavailable says"));
}

void Outage::note_detour() {
  if (ground_ == Ground::store) return;
  went_on_ = true;
  Status noted;
  for (const Claim& claim : claims_)
    if (auto one = note(EventKind::degraded, claim, told(error_) + "; " + how()); !one)
      noted = std::move(one);
  // Somebody has to learn that it went on.
  if (!noted) context_.say.tell(about(first().lock.name, noted.error(), {}));
}

void Outage::note_failure(const std::string& why) {
  if (ground_ != Ground::nowhere) return;
  for (const Claim& claim : claims_) static_cast<void>(note(EventKind::gave_up, claim, why));
}

// False: it is still away.
bool Outage::note_return(Interrupt interrupt) {
  LockStore& store = *context_.store;
  const Instant deadline = store_deadline(context_.settings);
  // What we had asked for may have been granted once it went on: by the token.
  for (const Claim& claim : claims_) {
    const auto late = store.session(claim);
    late->explain_end(EventKind::gave_up, "granted when klock had gone on without the store");
    if (!late->release(deadline, interrupt)) return false;
  }
  const auto state = store.inspect(first().lock, deadline, interrupt);
  if (!state) return false;
  const Duration away = BootClock::now() - since_;
  const std::string time = human_duration(whole(away));
  for (; noted_ < claims_.size(); ++noted_)
    if (!store.note(event_of(EventKind::degraded, claims_[noted_], "for " + time + ": " + told(error_)),
                    deadline, interrupt))
      return false;
  const Holder* const holder = state->holders.empty() ? nullptr : &state->holders.front();
  const std::string held = holder ? "; held meanwhile by " + (holder->foreign ? describe_client(*holder)
                                                                              : describe_person(holder->who))
                                  : "";
  for (const Claim& claim : claims_) {
    const bool named = &claim == &first();
    static_cast<void>(note(EventKind::reconnected, claim, store.describe() + (named ? held : ""), away));
  }
  context_.say.tell(about(
      first().lock.name,
      "the store is back after " + time + (holder ? "; held meanwhile by " + describe_holder(*holder) : ""),
      store.describe(), "the command goes on without the lock there"));
  return true;
}

std::unique_ptr<ReturnWatch> Outage::watch_return(std::function<void()> then) {
  return ReturnWatch::start([this, then = std::move(then)](Interrupt interrupt) {
    const bool back = note_return(interrupt);
    if (back && then) then();
    return back;
  });
}

}  // namespace klock
