// SPDX-License-Identifier: MIT
#include "store/redis/cluster.hpp"

#include "store/redis/keys.hpp"

#include <algorithm>

namespace klock::redis {
namespace {

constexpr std::uint16_t k_slots = 16384;
constexpr std::size_t k_most_known = 100;

bool is_among(const std::vector<RedisUrl>& servers, const RedisUrl& server) {
  return std::any_of(servers.begin(), servers.end(),
                     [&](const RedisUrl& one) { return is_same(one, server); });
}

// "host:port" of a redirection, where an IPv6 address has no brackets; without a host: the one that says so.
std::optional<RedisUrl> server_at(std::string_view endpoint, const RedisUrl& said_by) {
  const auto colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = port_of(endpoint.substr(colon + 1));
  if (!port) return std::nullopt;
  RedisUrl server = said_by;
  server.port = *port;
  const std::string_view host = endpoint.substr(0, colon);
  if (!host.empty() && host != "?") server.host = host;
  return server;
}

std::optional<std::uint16_t> slot_at(const Reply& range, std::size_t index) {
  const std::int64_t slot = range.number_at(index);
  if (slot < 0 || slot >= k_slots) return std::nullopt;
  return static_cast<std::uint16_t>(slot);
}

}  // namespace

// The polynomial is 0x1021, from 0 (XMODEM).
std::uint16_t slot_of(std::string_view key) {
  std::uint16_t crc = 0;
  for (const char c : slot_part(key)) {
    crc = static_cast<std::uint16_t>(crc ^ (static_cast<unsigned char>(c) << 8));
    for (int bit = 0; bit < 8; ++bit)
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
  }
  return crc % k_slots;
}

// An array of {first slot, last slot, master, replica...}; a server is {host, port, id, ...}.
SlotMap::SlotMap(const Reply& slots, const RedisUrl& asked) : told_by_(asked) {
  for (const Reply& range : slots.items) {
    const auto first = slot_at(range, 0);
    const auto last = slot_at(range, 1);
    std::vector<RedisUrl> servers;
    for (std::size_t i = 2; i < range.items.size(); ++i) {
      const Reply& server = range.items[i];
      if (auto url =
              server_at(std::string(server.text_at(0)) + ":" + std::to_string(server.number_at(1)), asked))
        servers.push_back(*std::move(url));
    }
    if (!first || !last || servers.empty()) continue;
    for (const RedisUrl& server : servers)
      if (!is_among(servers_, server)) servers_.push_back(server);
    ranges_.push_back({*first, *last, servers[0], servers.size() - 1});
  }
}

const RedisUrl* SlotMap::master_of(std::uint16_t slot) const {
  for (const Range& range : ranges_)
    if (range.first <= slot && slot <= range.last) return &range.master;
  return nullptr;
}

std::vector<RedisUrl> SlotMap::masters() const {
  std::vector<RedisUrl> masters;
  for (const Range& range : ranges_)
    if (!is_among(masters, range.master)) masters.push_back(range.master);
  return masters;
}

std::size_t SlotMap::unserved() const {
  std::size_t served = 0;
  for (const Range& range : ranges_)
    if (range.first <= range.last) served += static_cast<std::size_t>(range.last - range.first) + 1;
  return served < k_slots ? k_slots - served : 0;
}

std::vector<RedisUrl> SlotMap::alone() const {
  std::vector<RedisUrl> alone;
  for (const Range& range : ranges_)
    if (range.replicas == 0 && !is_among(alone, range.master)) alone.push_back(range.master);
  return alone;
}

Io<SlotMap> ask_slots(const std::vector<RedisUrl>& servers, const RedisUrl* except, Instant deadline,
                      Interrupt interrupt) {
  Pipeline out;
  out.add({"CLUSTER", "SLOTS"});
  const auto ask = [&](const RedisUrl& server) -> Io<SlotMap> {
    const Instant until = silent_until(server, deadline);
    KLOCK_TRY(connection, Connection::open(server, Login::plain, until, interrupt));
    KLOCK_CHECK(connection->write(out, until, interrupt));
    KLOCK_TRY(reply, connection->read(until, interrupt));
    if (reply.is_error()) return tl::unexpected<Fault>(fault_of(reply.text));
    return SlotMap(reply, server);
  };
  Io<SlotMap> slots = fault(Cause::no_contact, ErrorKind::unreachable,
                            "no other server of the Cluster is known", "name several in the URL");
  for (const RedisUrl& server : servers) {
    if (except != nullptr && is_same(server, *except)) continue;
    auto answer = ask(server);
    // One that has left the Cluster knows of nobody.
    if (answer && answer->servers().empty() && &server != &servers.back()) continue;
    slots = std::move(answer);
    if (slots || slots.error().cause == Cause::interrupted) break;
    slots.error().error.what = describe_endpoint(server) + ": " + slots.error().error.what;
  }
  return slots;
}

void ClusterRoute::learn(const std::vector<RedisUrl>& servers) {
  for (const RedisUrl& server : servers)
    if (known_.size() < k_most_known && !is_among(known_, server)) known_.push_back(server);
}

// Whether another server than the one that was opened has the slot, as far as the others know.
bool ClusterRoute::find_owner(Instant deadline, Interrupt interrupt) {
  const auto slots = ask_slots(known_, last_ ? &*last_ : nullptr, deadline, interrupt);
  if (!slots && slots.error().cause == Cause::no_permission) {
    owner_.reset();  // whoever is asked for the slot's keys tells too
    return true;
  }
  if (!slots) return false;
  const auto told = [&](const RedisUrl& one) { return is_same(one, slots->told_by()); };
  std::rotate(known_.begin(), std::find_if(known_.begin(), known_.end(), told), known_.end());
  learn(slots->servers());
  const RedisUrl* const owner = slots->master_of(slot_);
  if (owner == nullptr) return false;
  owner_ = *owner;
  return !last_ || !is_same(*owner_, *last_);
}

Io<std::unique_ptr<Connection>> ClusterRoute::open_any(Instant deadline, Interrupt interrupt) {
  Io<std::unique_ptr<Connection>> connection = timeout_fault();
  for (std::size_t i = 0; i < known_.size(); ++i) {
    connection =
        Connection::open(known_.front(), Login::member, silent_until(known_.front(), deadline), interrupt);
    if (connection) {
      owner_ = last_ = known_.front();
      return connection;
    }
    if (connection.error().cause == Cause::interrupted) return connection;
    connection.error().error.what = describe_endpoint(known_.front()) + ": " + connection.error().error.what;
    std::rotate(known_.begin(), known_.begin() + 1, known_.end());
  }
  return connection;
}

Io<std::unique_ptr<Connection>> ClusterRoute::open(Instant deadline, Interrupt interrupt) {
  for_once_ = asked_.has_value();
  if (for_once_)
    return Connection::open(*std::exchange(asked_, std::nullopt), Login::asking, deadline, interrupt);
  if (!owner_) return open_any(deadline, interrupt);
  const auto open_owner = [&] {
    last_ = owner_;
    const Instant now = BootClock::now();
    return Connection::open(*owner_, Login::member, std::min(deadline, now + patience(deadline - now)),
                            interrupt);
  };
  auto connection = open_owner();
  if (connection || connection.error().cause == Cause::interrupted) return connection;
  Fault fault = std::move(connection).error();
  if (find_owner(deadline, interrupt)) return owner_ ? open_owner() : open_any(deadline, interrupt);
  if (fault.cause == Cause::no_contact || fault.cause == Cause::timeout) fault.cause = Cause::later;
  fault.error.what = "the master " + describe_endpoint(*last_) + ": " + fault.error.what;
  return tl::unexpected<Fault>(std::move(fault));
}

bool ClusterRoute::leads_elsewhere(const Fault& fault, Instant deadline, Interrupt interrupt) {
  if (fault.cause == Cause::closed) return true;
  if (fault.cause != Cause::timeout && fault.cause != Cause::not_master) return false;
  const bool elsewhere = find_owner(deadline, interrupt);
  // One that says that the Cluster is down may soon be part of it again.
  return elsewhere || fault.cause == Cause::not_master;
}

bool ClusterRoute::redirect(const Fault& fault) {
  if (fault.cause != Cause::moved && fault.cause != Cause::ask) return false;
  const auto server = server_at(fault.server, last_ ? *last_ : known_.front());
  if (!server) return false;
  learn({*server});
  (fault.cause == Cause::moved ? owner_ : asked_) = *server;
  return true;
}

Finding judge_slots(const SlotMap& slots) {
  constexpr const char* k_subject = "cluster";
  const std::size_t unserved = slots.unserved();
  const std::vector<RedisUrl> alone = slots.alone();
  const std::string masters = std::to_string(slots.masters().size()) + " masters";
  if (unserved > 0)
    return {Severity::danger, k_subject,
            masters + ", and nobody has " + std::to_string(unserved) + " of the slots",
            "redis-cli --cluster fix"};
  if (!alone.empty()) {
    std::string names;
    for (const RedisUrl& server : alone) names += (names.empty() ? "" : ", ") + describe_endpoint(server);
    return {Severity::warning, k_subject, masters + ", without a replica: " + names,
            "redis-cli --cluster add-node"};
  }
  return {Severity::ok, k_subject, masters + ", each with a replica, have all slots"};
}

}  // namespace klock::redis
