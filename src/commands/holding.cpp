// SPDX-License-Identifier: MIT
// What scripts do with a hold that they have the token of: renew, check, release.
#include "commands/commands.hpp"
#include "commands/context.hpp"
#include "commands/keeper.hpp"
#include "commands/outage.hpp"
#include "commands/tokens.hpp"
#include "config/duration.hpp"
#include "util/exit_status.hpp"

#include <algorithm>

namespace klock {
namespace {

using std::chrono::milliseconds;

std::string ordered(const StopRequest& order) {
  return "a stop was asked for " + describe_order(order);
}

std::string removed_by(const std::optional<StopRequest>& order) {
  if (!order || order->released) return {};
  return ", removed " + describe_order(*order);
}

// Why a renewal or confirmation says that the hold is no more.
std::string why_over(const Renewal& renewal) {
  if (const auto* other = std::get_if<NotMine>(&renewal)) {
    std::string text = "the lock is not held with this token";
    if (other->holder) text += ", but by " + describe_holder(*other->holder);
    return text + removed_by(other->removed);
  }
  const auto* gone = std::get_if<Gone>(&renewal);
  return "nothing is held with this token" + removed_by(gone != nullptr ? gone->removed : std::nullopt);
}

// Where the holds are that scripts have tokens of.
class Stores {
 public:
  explicit Stores(const Context& context) : context_(context) {}

  LockStore& on(Ground ground) {
    if (ground == Ground::store) return *context_.store;
    auto& other = ground == Ground::host ? host_ : nowhere_;
    if (!other) other = open_elsewhere(context_, ground);
    return *other;
  }

 private:
  const Context& context_;
  std::unique_ptr<LockStore> host_;
  std::unique_ptr<LockStore> nowhere_;
};

class Holding {
 public:
  Holding(const HoldingRequest& request, const Context& context, LockStore& store, const KnownToken& known,
          Claim claim)
      : request_(request),
        context_(context),
        store_(store),
        known_(known),
        session_(store.session(std::move(claim))) {}

  Result<int> renew() {
    KLOCK_TRY(renewal, session_->renew(store_deadline(context_.settings), {}));
    const auto* renewed = std::get_if<Renewed>(&renewal);
    if (renewed == nullptr) return no(why_over(renewal), "a lost lease has to be acquired anew");
    if (renewed->stop && !renewed->stop->released)
      context_.say.tell(line(ordered(*renewed->stop), "klock release " + request_.name + " does that"));
    return k_exit_ok;
  }

  Result<int> check() {
    KLOCK_TRY(renewal, session_->confirm(store_deadline(context_.settings), {}));
    const auto* held = std::get_if<Renewed>(&renewal);
    if (held == nullptr) return quiet_no(why_over(renewal));
    // Whoever was asked to stop may be without the lock at any moment.
    if (held->stop) return quiet_no(ordered(*held->stop));
    if (held->deadline == k_never) return k_exit_ok;
    const Duration left = std::chrono::floor<milliseconds>(held->deadline - BootClock::now());
    if (left > Duration::zero() && left >= request_.left) return k_exit_ok;
    return quiet_no("the lease has " + format_duration(std::max(left, Duration::zero())) +
                    " left, less than " + format_duration(request_.left));
  }

  Result<int> release() {
    if (known_.ground == Ground::nowhere) end_keepers(known_.token.id());
    session_->explain_end(EventKind::gave_up, "klock release");
    KLOCK_TRY(released, session_->release(store_deadline(context_.settings), {}));
    if (released == Released::done) return k_exit_ok;
    return no(released == Released::gone ? "nothing is held with this token"
                                         : "the lock is not held with this token",
              "--token or --token-file names another hold than KLOCK_TOKEN");
  }

 private:
  std::string line(const std::string& what, const std::string& hint) const {
    return about(request_.name, what, store_.describe(), hint);
  }
  int no(const std::string& what, const std::string& hint) const {
    context_.say.tell(line(what, hint));
    return k_exit_no;
  }
  int quiet_no(const std::string& what) const {
    context_.say.explain(line(what, {}));
    return k_exit_no;
  }

  const HoldingRequest& request_;
  const Context& context_;
  const LockStore& store_;
  const KnownToken& known_;
  const std::unique_ptr<LockSession> session_;
};

// Of several tokens that may be meant the one that has the lock, else one that has joined it (whoever took it
// may have gone); the first if there is none. A store that is away does not hide what is held on this host.
Result<KnownToken> choose(const Context& context, Stores& stores, Claim claim,
                          const std::vector<KnownToken>& tokens) {
  if (tokens.size() == 1) return tokens.front();
  const KnownToken* joined = nullptr;
  std::optional<Error> away;
  for (const KnownToken& known : tokens) {
    if (away && known.ground == Ground::store) continue;
    claim.token = known.token;
    auto renewal = stores.on(known.ground).session(claim)->confirm(store_deadline(context.settings), {});
    if (!renewal && known.ground != Ground::store) return tl::unexpected(std::move(renewal).error());
    if (!renewal) {
      away = std::move(renewal).error();
      continue;
    }
    const auto* renewed = std::get_if<Renewed>(&*renewal);
    if (renewed && !renewed->joined) return known;
    if (renewed && !joined) joined = &known;
  }
  if (joined) return *joined;
  if (away) return tl::unexpected(*std::move(away));
  return tokens.front();
}

Result<int> deal(const HoldingRequest& request, const Context& context, Result<int> (Holding::*what)()) {
  Claim claim;
  KLOCK_TRY(lock, make_lock_name(context.settings.prefix.value, request.name, request.key));
  KLOCK_TRY(tokens, find_tokens(request.token, request.token_file));
  claim.lock = std::move(lock);
  claim.ttl = context.settings.ttl.value;
  claim.who = describe_self("klock", {});
  claim.by_token = true;
  Stores stores(context);
  KLOCK_TRY(known, choose(context, stores, claim, tokens));
  claim.token = known.token;
  return (Holding(request, context, stores.on(known.ground), known, std::move(claim)).*what)();
}

int conclude(const HoldingRequest& request, Result<int> (Holding::*what)()) {
  const auto context = open_context(request.flags);
  if (!context) return report_failure(request.flags, request.name, context.error());
  const auto status = deal(request, *context, what);
  if (status) return *status;
  return report_failure(context->say, request.name, context->store->describe(), status.error());
}

}  // namespace

int renew(const HoldingRequest& request) {
  return conclude(request, &Holding::renew);
}

int check(const HoldingRequest& request) {
  return conclude(request, &Holding::check);
}

int release(const HoldingRequest& request) {
  return conclude(request, &Holding::release);
}

}  // namespace klock
