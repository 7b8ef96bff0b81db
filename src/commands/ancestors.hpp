// SPDX-License-Identifier: MIT
#pragma once

#include "lease/claim.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace klock {

// Where a hold is: in the store that the settings name; or, as that could not be reached (--if-unavailable),
// in that of this host alone, or nowhere.
enum class Ground { store, host, nowhere };

struct KnownToken {
  Token token;
  Ground ground = Ground::store;
};

// As scripts have it: 32 lower-case hexadecimal digits; "local:" or "none:" in front for the other grounds.
std::optional<KnownToken> parse_token(std::string_view text);
std::string token_text(const KnownToken& known);

// The tokens of the runs that this process is part of and of the holds that its shell has, oldest first:
// those in KLOCK_HELD, and KLOCK_TOKEN. Anyone may have written these variables: what is no token is left
// out. At most 64: shells that acquire in a loop leave behind many whose holds have ended, so those in the
// middle go.
std::vector<KnownToken> known_tokens();

// Those of them that have a hold somewhere.
std::vector<Token> ancestor_tokens();

// The value of KLOCK_HELD under `own`.
std::string held_tokens(const KnownToken& own);

}  // namespace klock
