// SPDX-License-Identifier: MIT
#include "store/redis/client.hpp"

#include "store/redis/note_keeper.hpp"
#include "util/random.hpp"

#include <algorithm>
#include <array>

namespace klock::redis {
namespace {

// How many of the common keys are sent: all, and if we may not use one of them without the statistics,
// without the log, and without the index.
constexpr std::array<std::size_t, 4> k_common_counts{5, 2, 1, 0};
constexpr int k_most_redirections = 8;
constexpr auto k_first_pause = std::chrono::milliseconds(20);
constexpr auto k_longest_pause = std::chrono::milliseconds(500);

bool is_push(const Reply& reply, std::string_view kind) {
  return reply.type == Reply::Type::array && reply.items.size() == 3 && reply.text_at(0) == kind;
}

tl::unexpected<Fault> unexpected_reply() {
  return fault(Cause::final, ErrorKind::protocol, "the server gave an answer that makes no sense");
}

// The answer to an ECHO of `mark`, which tells ours from the ones still owed. A user may not be allowed to.
bool answers_mark(const Reply& reply, std::string_view mark) {
  if (reply.type == Reply::Type::string) return reply.text == mark;
  return reply.is_error() && forbids(reply.text, "echo");
}

// Of an answer to one of several commands. By itself each may be sent elsewhere.
bool concerns_all(Cause cause, std::size_t commands) {
  return cause == Cause::later || cause == Cause::moved ||
         (commands == 1 && (cause == Cause::ask || cause == Cause::not_master));
}

// Then the connection is kept with its answer owed: a release that follows must come after what was sent.
bool may_have_run(Cause cause) {
  return cause == Cause::interrupted || cause == Cause::timeout || cause == Cause::login;
}

}  // namespace

Client::Client(const Site& site, std::string_view key, std::string channel)
    : site_(site), route_(make_route(site, key)), channel_(std::move(channel)) {}
Client::~Client() = default;

// After an answer that names another server: whether to ask there at once. If they send us round in circles
// they don't agree yet, which passes.
bool Client::redirect(Fault& fault, int& redirections) {
  if (!route_->redirect(fault)) return false;
  drop();
  if (++redirections < k_most_redirections) return true;
  redirections = 0;
  fault = {
      Cause::later,
      {ErrorKind::not_ready, "the servers of the Cluster do not agree on which of them is in charge", ""}};
  return false;
}

// Asks again as long as the server wants patience, or another one may be in charge.
template <class Ask>
auto Client::patiently(const Ask& ask, bool wait_for_split, Instant deadline, Interrupt interrupt)
    -> decltype(ask(deadline)) {
  Duration pause = k_first_pause;
  int redirections = 0;
  sent_again_ = false;
  for (;;) {
    const Instant now = BootClock::now();
    auto answer = ask(deadline == k_never ? deadline : now + route_->patience(deadline - now));
    if (answer) return answer;
    if (redirect(answer.error(), redirections)) continue;
    const Cause cause = answer.error().cause;
    const bool is_silent = cause == Cause::timeout && reply_owed_;
    if (BootClock::now() + (is_silent ? Duration::zero() : pause) >= deadline) return answer;
    if (cause != Cause::later && !(cause == Cause::split && wait_for_split)) {
      if (route_->leads_elsewhere(answer.error(), deadline, interrupt)) {
        drop();
        sent_again_ = true;
      } else if (is_silent) {
        begun_ = Io<void>();  // it may still answer: what was sent must not be overtaken by a repetition
        continue;
      } else {
        return answer;
      }
    }
    if (wait_ready(-1, 0, std::min(deadline, BootClock::now() + pause), interrupt) == Ready::interrupted)
      return interrupted_fault();
    pause = std::min<Duration>(pause * 2, k_longest_pause);
  }
}

void Client::drop() {
  connection_.reset();
  reply_owed_ = subscribed_ = subscribing_ = leaving_ = false;
}

void Client::drop_begun() {
  begun_.reset();
  drop();
}

Io<void> Client::ensure_connection(Instant deadline, Interrupt interrupt) {
  if (reply_owed_) drop();
  if (connection_ != nullptr && route_->is_current(deadline, interrupt)) return {};
  drop();
  KLOCK_TRY(connection, route_->open(deadline, interrupt));
  connection_ = std::move(connection);
  return {};
}

// Where the common keys lie elsewhere the lock's key stands for them, see scripts/common.lua.
void Client::add_script(Pipeline& out, const ScriptCall& call) const {
  std::vector<std::string_view> keys = call.keys;
  if (!keys.empty() && !call.common_keys.empty() && route_->splits_keys())
    keys.push_back(keys.front());
  else
    keys.insert(keys.end(), call.common_keys.begin(),
                call.common_keys.begin() + static_cast<std::ptrdiff_t>(std::min(
                                               call.common_keys.size(), k_common_counts.at(left_out_))));
  const std::string count = std::to_string(keys.size());
  std::vector<std::string_view> words{with_text_ ? "EVAL" : "EVALSHA",
                                      with_text_ ? call.script.text : call.script.sha, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  out.add(words);
}

Io<void> Client::send(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  KLOCK_CHECK(ensure_connection(deadline, interrupt));
  const bool subscribe = in_transaction(call);
  Pipeline out;
  if (subscribed_) out.add({"UNSUBSCRIBE"});
  if (subscribe) out.add({"MULTI"});
  add_script(out, call);
  if (subscribe) {
    out.add({"SUBSCRIBE", channel_});
    out.add({"EXEC"});
  }
  leaving_ = subscribed_;
  subscribed_ = false;
  reply_owed_ = true;
  queued_ = 0;
  sent_at_ = BootClock::now();
  return write_whole(out, deadline, interrupt);
}

// What was cut within a command can be followed by nothing.
Io<void> Client::write_whole(const Pipeline& out, Instant deadline, Interrupt interrupt) {
  auto sent = connection_->write(out, deadline, interrupt);
  if (!sent) drop();
  return sent;
}

// The script's own answer, without what is to be noted elsewhere.
Io<Reply> Client::answer_of(const ScriptCall& call, Reply&& reply) {
  if (reply.is_error()) return tl::unexpected<Fault>(fault_of(reply.text));
  if (call.keys.empty() || call.common_keys.empty() || !route_->splits_keys()) return std::move(reply);
  if (reply.items.size() != 2) return unexpected_reply();
  if (!reply.items[0].text.empty()) {
    if (!note_keeper_) note_keeper_ = std::make_unique<NoteKeeper>(site_, call.common_keys);
    note_keeper_->keep(std::move(reply.items[0].text));
  }
  if (reply.items[1].is_error()) return tl::unexpected<Fault>(fault_of(reply.items[1].text));
  return std::move(reply.items[1]);
}

Io<void> Client::finish_unsubscribe(Instant deadline, Interrupt interrupt) {
  // What was published before is answered by the script that follows.
  while (leaving_) {
    KLOCK_TRY(reply, connection_->read(deadline, interrupt));
    if (reply.is_error()) return tl::unexpected<Fault>(fault_of(reply.text));
    if (is_push(reply, "unsubscribe")) leaving_ = false;
  }
  return {};
}

Io<Reply> Client::receive(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  KLOCK_CHECK(finish_unsubscribe(deadline, interrupt));
  if (in_transaction(call)) return receive_transaction(call, deadline, interrupt);
  KLOCK_TRY(reply, connection_->read(deadline, interrupt));
  reply_owed_ = false;
  return answer_of(call, std::move(reply));
}

// The answers to MULTI, EVALSHA, SUBSCRIBE, EXEC. The first error tells why a transaction was not executed.
Io<Reply> Client::receive_transaction(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  enum { multi, script, subscription, exec };
  for (; queued_ < exec; ++queued_) {
    KLOCK_TRY(queued, connection_->read(deadline, interrupt));
    if (!queued.is_error()) continue;
    if (queued_ != script && forbids(queued.text)) can_listen_ = false;
    // A full server queues nothing in a transaction, while the script by itself may well run.
    if (queued.text.starts_with("OOM")) plain_once_ = true;
    return tl::unexpected<Fault>(fault_of(queued.text));
  }
  KLOCK_TRY(executed, connection_->read(deadline, interrupt));
  if (executed.is_error() && forbids(executed.text, "exec")) can_listen_ = false;
  if (executed.is_error()) return tl::unexpected<Fault>(fault_of(executed.text));
  if (executed.type != Reply::Type::array || executed.items.size() != 2) return unexpected_reply();
  reply_owed_ = false;
  if (!is_push(executed.items[1], "subscribe")) {
    if (!executed.items[1].is_error() || !forbids(executed.items[1].text)) return unexpected_reply();
    can_listen_ = false;
    return fault(Cause::no_permission, ErrorKind::refused, "the server lets us not subscribe");
  }
  subscribed_ = true;
  return answer_of(call, std::move(executed.items[0]));
}

// Changes what stood in the way; false: nothing can be done about this fault. Each change is made at most
// once.
bool Client::adapt(const Fault& fault) {
  switch (fault.cause) {
    case Cause::closed:
      return !std::exchange(replaced_, true);
    case Cause::no_script:
      return !std::exchange(with_text_, true);
    case Cause::no_permission:
      if (left_out_ + 1 == k_common_counts.size()) return false;
      ++left_out_;
      return true;
    default:
      return false;
  }
}

Io<Reply> Client::exchange(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  replaced_ = false;
  for (;;) {
    const bool could_listen = can_listen_;
    const bool was_plain = plain_once_;
    Io<void> sent = begun_ ? *std::exchange(begun_, std::nullopt) : send(call, deadline, interrupt);
    Io<Reply> reply =
        sent ? receive(call, deadline, interrupt) : tl::unexpected<Fault>(std::move(sent).error());
    if (reply) {
      with_text_ = plain_once_ = false;
      return reply;
    }
    if (reply.error().cause == Cause::no_scripting) no_scripts_ = reply.error().error;
    const bool adapted =
        (could_listen && !can_listen_) || (plain_once_ && !was_plain) || adapt(reply.error());
    if (!may_have_run(reply.error().cause) && reply.error().cause != Cause::no_script) drop();
    if (adapted) {
      // Refusals come before a script does anything; a broken connection may have carried it there.
      sent_again_ = sent_again_ || reply.error().cause == Cause::closed;
      continue;
    }
    plain_once_ = false;
    return reply;
  }
}

Io<Reply> Client::call(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  auto answer = patiently([&](Instant until) { return exchange(call, until, interrupt); }, call.patient,
                          deadline, interrupt);
  if (note_keeper_) note_keeper_->write();
  return answer;
}

void Client::begin(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  begun_ = send(call, deadline, interrupt);
}

Io<void> Client::skip_to(const std::string& mark, Instant deadline, Interrupt interrupt) {
  for (;;) {
    KLOCK_TRY(reply, connection_->read(deadline, interrupt));
    if (answers_mark(reply, mark)) return {};
  }
}

Io<Reply> Client::receive_after(const std::string& mark, const ScriptCall& call, Instant deadline,
                                Interrupt interrupt) {
  KLOCK_CHECK(skip_to(mark, deadline, interrupt));
  KLOCK_TRY(reply, connection_->read(deadline, interrupt));
  return answer_of(call, std::move(reply));
}

Io<Reply> Client::call_in_order(const ScriptCall& call, Instant deadline, Interrupt interrupt) {
  const bool owed = connection_ != nullptr && (reply_owed_ || begun_);
  begun_.reset();
  if (!owed) return this->call(call, deadline, interrupt);
  // A mark that nobody else can have sent tells our answer from the ones still owed.
  const auto mark = random_hex128();
  if (!mark) return tl::unexpected<Fault>(Fault{Cause::final, mark.error()});
  Pipeline out;
  connection_->forget_login();
  out.add({"UNSUBSCRIBE"});
  out.add({"ECHO", *mark});
  with_text_ = true;
  add_script(out, call);
  with_text_ = false;
  sent_at_ = BootClock::now();
  Io<Reply> reply = tl::unexpected<Fault>(Fault{Cause::final, Error{}});
  if (auto sent = connection_->write(out, deadline, interrupt); !sent)
    reply = tl::unexpected<Fault>(std::move(sent).error());
  else
    reply = receive_after(*mark, call, deadline, interrupt);
  drop();
  if (!reply && reply.error().cause == Cause::no_scripting) no_scripts_ = reply.error().error;
  if (!reply && route_->redirect(reply.error())) return this->call(call, deadline, interrupt);
  if (note_keeper_) note_keeper_->write();
  return reply;
}

Io<std::vector<Reply>> Client::exchange(const Pipeline& commands, Instant deadline, Interrupt interrupt) {
  begun_.reset();
  KLOCK_CHECK(ensure_connection(deadline, interrupt));
  return ask_here(commands, deadline, interrupt);
}

Io<std::vector<Reply>> Client::ask_here(const Pipeline& commands, Instant deadline, Interrupt interrupt) {
  reply_owed_ = true;
  sent_at_ = BootClock::now();
  KLOCK_CHECK(write_whole(commands, deadline, interrupt));
  std::vector<Reply> replies;
  replies.reserve(commands.count());
  while (replies.size() < commands.count()) {
    KLOCK_TRY(reply, connection_->read(deadline, interrupt));
    if (reply.is_error())
      if (Fault meaning = fault_of(reply.text); concerns_all(meaning.cause, commands.count()))
        return tl::unexpected<Fault>(std::move(meaning));
    replies.push_back(std::move(reply));
  }
  reply_owed_ = false;
  return replies;
}

Io<std::vector<Reply>> Client::commands(const Pipeline& commands, Instant deadline, Interrupt interrupt) {
  return patiently([&](Instant until) { return exchange(commands, until, interrupt); }, true, deadline,
                   interrupt);
}

Io<Reply> Client::command(const std::vector<std::string_view>& words, Instant deadline, Interrupt interrupt) {
  Pipeline out;
  out.add(words);
  KLOCK_TRY(replies, commands(out, deadline, interrupt));
  if (replies[0].is_error()) return tl::unexpected<Fault>(fault_of(replies[0].text));
  return std::move(replies[0]);
}

// Reads what is still to come over this connection; a mark that nobody else can have sent tells where it
// ends.
Io<void> Client::finish_owed(Instant deadline, Interrupt interrupt) {
  const auto mark = random_hex128();
  if (!mark) return tl::unexpected<Fault>(Fault{Cause::final, mark.error()});
  Pipeline out;
  out.add({"ECHO", *mark});
  KLOCK_CHECK(write_whole(out, deadline, interrupt));
  KLOCK_CHECK(skip_to(*mark, deadline, interrupt));
  reply_owed_ = false;
  return {};
}

Io<std::vector<Reply>> Client::transact(const std::vector<std::string_view>& watched, const Pipeline& look,
                                        const Act& act, bool in_order, Instant deadline,
                                        Interrupt interrupt) {
  // What is watched still, as nothing came of it, only makes us look once more.
  Pipeline first;
  std::vector<std::string_view> watch{"WATCH"};
  watch.insert(watch.end(), watched.begin(), watched.end());
  first.add(watch);
  first.add(look);
  const auto ask = [&](Instant until) -> Io<std::vector<Reply>> {
    for (;;) {
      if (in_order && connection_ != nullptr && reply_owed_) KLOCK_CHECK(finish_owed(until, interrupt));
      KLOCK_TRY(seen, exchange(first, until, interrupt));
      if (seen[0].is_error()) return tl::unexpected<Fault>(fault_of(seen[0].text));
      seen.erase(seen.begin());
      const Pipeline writes = act(seen);
      if (writes.count() == 0) return std::vector<Reply>();
      Pipeline transaction;
      transaction.add({"MULTI"});
      transaction.add(writes);
      transaction.add({"EXEC"});
      // Over the connection that watches, no other.
      KLOCK_TRY(answers, ask_here(transaction, until, interrupt));
      for (const Reply& answer : answers)
        if (answer.is_error()) return tl::unexpected<Fault>(fault_of(answer.text));
      Reply& executed = answers.back();
      if (executed.type == Reply::Type::nil) continue;
      if (executed.items.size() != writes.count()) return unexpected_reply();
      for (const Reply& answer : executed.items)
        if (answer.is_error()) return tl::unexpected<Fault>(fault_of(answer.text));
      return std::move(executed.items);
    }
  };
  return patiently(ask, true, deadline, interrupt);
}

Io<std::int64_t> Client::await_replicas(std::size_t count, std::chrono::milliseconds limit, Instant deadline,
                                        Interrupt interrupt) {
  if (!connected()) return fault(Cause::closed, ErrorKind::unreachable, "the connection was lost");
  Pipeline out;
  if (subscribed_) out.add({"UNSUBSCRIBE"});
  const std::string number = std::to_string(count);
  const std::string time = std::to_string(limit.count());
  out.add({"WAIT", number, time});
  leaving_ = std::exchange(subscribed_, false);
  reply_owed_ = true;
  KLOCK_CHECK(write_whole(out, deadline, interrupt));
  KLOCK_CHECK(finish_unsubscribe(deadline, interrupt));
  KLOCK_TRY(reply, connection_->read(deadline, interrupt));
  if (reply.is_error()) return tl::unexpected<Fault>(fault_of(reply.text));
  reply_owed_ = false;
  return reply.integer;
}

Io<void> Client::subscribe(Instant deadline, Interrupt interrupt) {
  Pipeline out;
  out.add({"SUBSCRIBE", channel_});
  subscribing_ = reply_owed_ = true;
  return write_whole(out, deadline, interrupt);
}

Io<std::string> Client::next_message(Instant until, Interrupt interrupt) {
  for (;;) {
    Io<Reply> reply = connection_->read(until, interrupt);
    if (!reply) {
      const Cause cause = reply.error().cause;
      const bool harmless = cause == Cause::timeout || cause == Cause::interrupted;
      if (!harmless) drop();
      return tl::unexpected<Fault>(std::move(reply).error());
    }
    if (is_push(*reply, "message")) return std::move(reply->items[2].text);
    if (!subscribing_) continue;
    if (is_push(*reply, "subscribe")) {
      subscribing_ = reply_owed_ = false;
      subscribed_ = true;
      return std::string();
    }
    if (!reply->is_error()) continue;
    subscribing_ = reply_owed_ = false;
    can_listen_ = can_listen_ && !forbids(reply->text);
    Fault meaning = fault_of(reply->text);
    if (meaning.cause != Cause::no_permission) drop();
    return tl::unexpected<Fault>(std::move(meaning));
  }
}

}  // namespace klock::redis
