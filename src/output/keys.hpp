// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

namespace klock {

enum class Key {
  text,  // a character
  enter,
  escape,
  backspace,
  erase_line,  // Ctrl-U
  up,
  down,
  page_up,
  page_down,
  home,
  end,
  other  // one that means nothing here
};

struct KeyPress {
  Key key = Key::other;
  std::string text = {};  // of Key::text: valid UTF-8, no control character
};

// Takes the first key off `input`, the bytes that a terminal sent. nullopt: none, or only the beginning of
// one; with `complete` nothing more will come, and what begins there is taken for what it is: a lone ESC is
// the key of that name.
std::optional<KeyPress> take_key(std::string& input, bool complete);

}  // namespace klock
