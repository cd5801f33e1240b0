// Regular expressions in RE2's syntax, matched against whole strings by running
// all states at once: the time is at most pattern size times text length, whatever
// the pattern, which std::regex does not promise. Not modelled: \p{..} and \C.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace finity {

class Regex {
 public:
  // Throws Error on a malformed pattern or one that is too large, Unsupported on a feature not modelled.
  explicit Regex(std::string_view pattern);

  bool matches_all_of(std::string_view text) const;

  // Ranges of code points, both ends included.
  struct CharSet {
    std::vector<std::pair<char32_t, char32_t>> ranges = {};
    bool negated = false;
    bool fold_case = false;

    bool contains(char32_t point) const;
  };
  enum class Op : std::uint8_t {
    one_of,
    fork,
    text_begin,
    text_end,
    line_begin,
    line_end,
    word_edge,
    no_word_edge,
    accept
  };
  // A state of the automaton. A fork goes on at both `next` and `other`; one_of consumes a code point.
  struct State {
    Op op = Op::accept;
    int next = -1;
    int other = -1;
    CharSet set = {};
  };

 private:
  std::vector<State> states_;
  int start_ = 0;
};

}  // namespace finity
