// SPDX-License-Identifier: MIT
#pragma once

#include "lease/lock_state.hpp"
#include "util/result.hpp"

#include <string>

namespace klock {

// Everything klock says goes to stderr through one of these, each message one line and one write(2), so that
// lines of several klocks never mix. Failing writes are ignored: a closed stderr must not end a job.
class Messenger {
 public:
  // verbosity -1: only usage errors; 0: what someone must know; 1: also what happens and why (-v).
  explicit Messenger(int verbosity) : verbosity_(verbosity) {}

  void usage(const std::string& text) const;    // always
  void tell(const std::string& text) const;     // unless -q
  void explain(const std::string& text) const;  // only with -v
  bool verbose() const { return verbosity_ > 0; }
  bool quiet() const { return verbosity_ < 0; }

 private:
  int verbosity_;
};

// "NAME: what (store); hint", escaped; empty parts are left out with their punctuation. Messenger puts
// "klock: " in front.
std::string about(const std::string& name, const std::string& what, const std::string& store,
                  const std::string& hint);
std::string about(const std::string& name, const Error& error, const std::string& store);

// "root@host pid 123 (import.sh) since 2026-11-29 17:53:00 (12s): message", with what is unknown left out;
// for a foreign holder "another client, probably redsync (string "abc")".
std::string describe_holder(const Holder& holder);
// "another client, probably redsync": of a foreign holder.
std::string describe_client(const Holder& holder);
// Who ended a hold, and why, escaped: "by ann@db1, reason: ...".
std::string describe_order(const StopRequest& order);
std::string describe_person(const Person& who);
// "completed by root@host pid 123 (import.sh) at 2026-11-29 17:53:00, kept for 29d23h more"
std::string describe_marker(const Marker& marker);

// "1h52m left", for a hold that no process renews, such as one for maintenance: then it will really end; else
// "".
std::string unrenewed_time_left(const Holder& holder);

}  // namespace klock
