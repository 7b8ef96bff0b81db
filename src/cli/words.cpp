// SPDX-License-Identifier: MIT
#include "cli/words.hpp"

#include "config/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace klock {
namespace {

class Splitter {
 public:
  Splitter(const Syntax& syntax, std::span<const std::string> words) : syntax_(syntax), words_(words) {}

  Result<SplitWords> split() {
    while (at_ < words_.size() && !done_) {
      const std::string& word = words_[at_];
      if (word == "--")
        end_options();
      else if (word.size() > 1 && word.front() == '-')
        KLOCK_CHECK(take_option(word));
      else
        take_word(word);
    }
    split_.used = at_;
    return std::move(split_);
  }

 private:
  bool has_command() const { return syntax_.words == Words::name_and_command; }

  void take_word(const std::string& word) {
    if (syntax_.words == Words::subcommand) {
      done_ = true;
    } else if (has_command() && !split_.operands.empty()) {
      take_command();
    } else {
      split_.operands.push_back(word);
      ++at_;
    }
  }

  void take_command() {
    split_.command.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    at_ = words_.size();
  }

  void end_options() {
    ++at_;
    if (syntax_.words == Words::subcommand) {
      done_ = true;
      return;
    }
    if (has_command()) {
      if (split_.operands.empty() && at_ < words_.size()) {
        split_.operands.push_back(words_[at_++]);
        if (at_ < words_.size() && words_[at_] == "--") ++at_;
      }
      take_command();
      return;
    }
    for (; at_ < words_.size(); ++at_) split_.operands.push_back(words_[at_]);
  }

  Status take_option(const std::string& word) {
    ++at_;
    return word.starts_with("--") ? take_long(word) : take_cluster(word);
  }

  Status take_long(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const Option* const option = find_option(syntax_, std::string_view(name).substr(2));
    if (!option) return unknown(name, word);
    if (equals < word.size() && option->value.empty())
      return failure(ErrorKind::usage, name + " takes no value");
    if (equals + 1 == word.size()) {
      // CLI11 would take the next word for the value of `--name=`.
      split_.own.insert(split_.own.end(), {name, std::string()});
      return {};
    }
    split_.own.push_back(word);
    take_value(*option, equals < word.size());
    return {};
  }

  Status take_cluster(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Option* const option = find_option(syntax_, word[i]);
      if (!option) return unknown(std::string{'-', word[i]}, word);
      const bool takes_rest = !option->value.empty() && i + 1 < word.size();
      if (!takes_rest && !ends_splitting(*option) && i + 1 < word.size()) continue;
      split_.own.push_back(takes_rest ? word : word.substr(0, i + 1));
      take_value(*option, takes_rest);
      break;
    }
    return {};
  }

  static bool ends_splitting(const Option& option) {
    return option.name == "help" || option.name == "version";
  }

  // The word after an option with nothing attached is its value, if it takes one. That one is missing, CLI11
  // tells.
  void take_value(const Option& option, bool attached) {
    if (!option.value.empty() && !attached && at_ < words_.size()) split_.own.push_back(words_[at_++]);
    done_ = ends_splitting(option);
  }

  tl::unexpected<Error> unknown(const std::string& written, const std::string& word) const {
    std::string what = "unknown option '" + written + "'";
    if (written.size() == 2 && word.size() > 2) what += " in '" + word + "'";
    std::vector<std::string_view> names;
    for (const OptionGroup& group : syntax_.groups)
      for (const Option& option : group.options) names.push_back(option.name);
    const std::string_view close = written.starts_with("--")
                                       ? nearest_word(std::string_view(written).substr(2), names)
                                       : std::string_view();
    if (!close.empty()) what += ", did you mean '--" + std::string(close) + "'?";
    // A mistyped option must not become the command.
    if (has_command() && !split_.operands.empty())
      what += std::string(close.empty() ? ";" : "") + " if the command begins here put '--' before it";
    return failure(ErrorKind::usage, what);
  }

  const Syntax& syntax_;
  const std::span<const std::string> words_;
  std::size_t at_ = 0;
  bool done_ = false;
  SplitWords split_;
};

}  // namespace

Result<SplitWords> split_words(const Syntax& syntax, std::span<const std::string> words) {
  return Splitter(syntax, words).split();
}

}  // namespace klock
