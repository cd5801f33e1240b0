// The syntax tree of a regular expression; see regex.h.
#pragma once

#include <string_view>
#include <vector>

#include "ops/extra/text/regex.h"

namespace finity {

struct RegexNode {
  enum class Kind : std::uint8_t { one_of, assertion, sequence, choice, repeat };

  Kind kind = Kind::sequence;
  Regex::CharSet set = {};                    // one_of
  Regex::Op assertion = Regex::Op::text_end;  // assertion
  int least = 0;                              // repeat
  int most = -1;                              // repeat; -1: any number
  std::vector<RegexNode> children = {};
};

RegexNode parse_regex(std::string_view pattern);

}  // namespace finity
