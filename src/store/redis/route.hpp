// SPDX-License-Identifier: MIT
#pragma once

#include "config/store_url.hpp"
#include "store/redis/connection.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace klock::redis {

// The servers that one store consists of, as configured.
using Site = std::variant<RedisUrl, SentinelUrl, ClusterUrl>;

// For messages: the URL without any secret.
std::string describe(const Site& site);

// The way to the server that is in charge. Each client has its own; one thread at a time.
class Route {
 public:
  virtual ~Route() = default;

  // A new connection to the server that is in charge now. Faults: those of Connection::open(), and why it is
  // not known who that is.
  virtual Io<std::unique_ptr<Connection>> open(Instant deadline, Interrupt interrupt) = 0;

  // Whether another server may come to be in charge, so that it is asked again.
  virtual bool may_change() const { return false; }

  // Before something is sent over a connection that open() has led to: whether that server is in charge
  // still, as far as is known. One that was replaced may not know it.
  virtual bool is_current(Instant /*deadline*/, Interrupt) { return true; }

  // After a fault of the server that open() led to: whether another one may be in charge by now, so that it
  // is worth while to open() again. What was sent may have been done all the same.
  virtual bool leads_elsewhere(const Fault&, Instant /*deadline*/, Interrupt) { return false; }

  // After an answer that names another server (Cause::moved, ask): whether open() leads there now. Nothing
  // was done.
  virtual bool redirect(const Fault&) { return false; }

  // Whether the keys of one request must belong together, so that those of a prefix need one of their own.
  virtual bool splits_keys() const { return false; }

  // How long a server may be silent until leads_elsewhere() is asked, of the time that is left.
  Duration patience(Duration left) const;
};

// `key`: what it is for; on a Cluster it decides which server is in charge.
std::unique_ptr<Route> make_route(const Site& site, std::string_view key);

}  // namespace klock::redis
