// SPDX-License-Identifier: MIT
#pragma once

#include <tl/expected.hpp>

#include <string>
#include <utility>

namespace klock {

// The few kinds of failure that someone can act on; cli/ maps each to one exit status.
// What a lock can answer (held, busy, not mine, gone) is never an error: those are values.
enum class ErrorKind {
  usage,        // the command line is wrong                      64
  config,       // a file or the environment is wrong             78
  unreachable,  // the store gave no usable answer in time        69
  not_ready,    // the store is there, but takes no locks now     69
  unsafe,       // it does not keep the lock as well as asked     69
  refused,      // the store understood us and said no            77
  protocol,     // the other side does not speak our protocol     69
  forced,       // somebody ended the hold                        79
  system,       // an operating system call failed                71
  internal      // a fault of klock itself                        70
};

// `what` completes the sentence "klock: NAME: <what> (<store>); <hint>": lower case, no full stop, no secret.
struct Error {
  ErrorKind kind;
  std::string what;
  std::string hint = {};
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> failure(ErrorKind kind, std::string what, std::string hint = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(what), std::move(hint)});
}

// It may pass by itself, so that another try is worth while.
constexpr bool may_pass(ErrorKind kind) {
  return kind == ErrorKind::unreachable || kind == ErrorKind::not_ready;
}

// "<what>: <strerror(code)>" as ErrorKind::system; `code` is an errno value.
tl::unexpected<Error> system_failure(const std::string& what, int code);

}  // namespace klock

// Hands an error of `expression` to our caller; otherwise binds the value to `name`.
#define KLOCK_CONCAT_(a, b) a##b
#define KLOCK_CONCAT(a, b) KLOCK_CONCAT_(a, b)
#define KLOCK_TRY_IMPL(temp, name, expression)                 \
  auto temp = (expression);                                    \
  if (!temp) return ::tl::unexpected(std::move(temp).error()); \
  auto name = std::move(temp).value()
#define KLOCK_TRY(name, expression) KLOCK_TRY_IMPL(KLOCK_CONCAT(try_, __LINE__), name, expression)
#define KLOCK_CHECK(expression)                                                                  \
  do {                                                                                           \
    if (auto check_ = (expression); !check_) return ::tl::unexpected(std::move(check_).error()); \
  } while (false)
