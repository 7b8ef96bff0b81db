// SPDX-License-Identifier: MIT
#pragma once

#include "store/redis/reply.hpp"
#include "util/result.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace klock::redis {

// What a failed exchange means for the next step; `error` is what to tell when there is none.
enum class Cause {
  interrupted,    // the caller's interrupt was raised
  timeout,        // no answer by the deadline
  no_contact,     // no connection came about
  closed,         // an existing connection ended
  later,          // the server asks for patience (LOADING, BUSY, ...)
  no_script,      // send the script's text
  no_scripting,   // this user may not run scripts, or the server has none
  login,          // AUTH or SELECT failed, or it belongs to no Cluster; what was sent may have run there
  no_permission,  // the ACL forbids this command, key or channel
  tls,            // no agreement on who we are, or how to speak
  not_master,     // it is a replica, or out of its Cluster: another server is in charge
  moved,          // another server of the Cluster has the slot (Fault::server)
  ask,            // it may have it, this once
  split,          // the slot is being moved, and its keys are on two servers
  final           // nothing to be done
};

struct Fault {
  Cause cause;
  Error error;
  std::string server = {};  // "host:port" of moved and ask; no host: the one that says so
};

template <class T>
using Io = tl::expected<T, Fault>;

inline tl::unexpected<Fault> fault(Cause cause, ErrorKind kind, std::string what, std::string hint = {}) {
  return tl::unexpected<Fault>(Fault{cause, Error{kind, std::move(what), std::move(hint)}});
}

tl::unexpected<Fault> interrupted_fault();
tl::unexpected<Fault> timeout_fault();
tl::unexpected<Fault> closed_fault();

// The meaning of an error reply. The text shown is the server's, cut, without anything that repeats what we
// sent.
Fault fault_of(std::string_view error_reply);
// The same for the answer to AUTH: never shows the server's text, which may repeat the password.
Fault login_fault_of(std::string_view error_reply);
// Whether the server says that this user may not do that, or that it cannot.
bool forbids(std::string_view error_reply);
// Whether a refusal is of a command, whatever the key.
bool is_of_command(const Fault& fault);
// Whether it says so of a command whose name begins so, in lower case.
bool forbids(std::string_view error_reply, std::string_view command);

// Commands to be written at once.
class Pipeline {
 public:
  void add(std::initializer_list<std::string_view> words) { append(words.begin(), words.size()); }
  void add(const std::vector<std::string_view>& words) { append(words.data(), words.size()); }
  void add(const Pipeline& others) {
    bytes_ += others.bytes_;
    count_ += others.count_;
  }
  const std::string& bytes() const { return bytes_; }
  std::size_t count() const { return count_; }

 private:
  void append(const std::string_view* words, std::size_t count);
  std::string bytes_;
  std::size_t count_ = 0;
};

}  // namespace klock::redis
