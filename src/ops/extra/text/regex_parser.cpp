#include "ops/extra/text/regex_parser.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/extra/text/utf8.h"

namespace finity {

namespace {

using CharSet = Regex::CharSet;
using Kind = RegexNode::Kind;
using Op = Regex::Op;

constexpr std::size_t kMaxPattern = 10000;
constexpr int kMaxNesting = 200;
constexpr int kMaxRepeat = 1000;  // as in RE2

struct NamedSet {
  std::string_view name;
  std::string_view bounds;  // pairs of first and last
};

// What \d, \w, \s and [:name:] stand for; ASCII only, as in RE2.
constexpr NamedSet kNamedSets[] = {
    {"d", "09"},           {"w", "09AZaz__"},    {"s", "\t\n\f\r  "},           {"alnum", "09AZaz"}, {"alpha", "AZaz"},
    {"ascii", "\x01\x7f"}, {"blank", "\t\t  "},  {"cntrl", "\x01\x1f\x7f\x7f"}, {"digit", "09"},     {"graph", "!~"},
    {"lower", "az"},       {"print", " ~"},      {"punct", "!/:@[`{~"},         {"space", "\t\r  "}, {"upper", "AZ"},
    {"word", "09AZaz__"},  {"xdigit", "09AFaf"},
};

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

std::optional<Ranges> named_ranges(std::string_view name) {
  for (const NamedSet& set : kNamedSets) {
    if (set.name != name) continue;
    Ranges ranges;
    for (std::size_t i = 0; i + 1 < set.bounds.size(); i += 2) {
      ranges.emplace_back(static_cast<unsigned char>(set.bounds[i]), static_cast<unsigned char>(set.bounds[i + 1]));
    }
    if (name == "ascii" || name == "cntrl") ranges.emplace_back(0, 0);
    return ranges;
  }
  return std::nullopt;
}

// Everything the ranges do not hold; negated classes inside [...] need it spelled out.
Ranges complement(Ranges ranges) {
  std::ranges::sort(ranges);
  Ranges result;
  char32_t next = 0;
  for (const auto& [first, last] : ranges) {
    if (first > next) result.emplace_back(next, first - 1);
    next = std::max<char32_t>(next, last + 1);
  }
  if (next <= kLastCodePoint) result.emplace_back(next, kLastCodePoint);
  return result;
}

struct Flags {
  bool fold_case = false;
  bool dot_all = false;
  bool multi_line = false;
};

class Parser {
 public:
  explicit Parser(std::u32string_view text) : text_(text) {}

  RegexNode parse() {
    RegexNode tree = choice();
    if (!done()) fail("unexpected ')'");
    return tree;
  }

 private:
  [[noreturn]] static void fail(const std::string& reason) { throw Error("regular expression: " + reason); }

  bool done() const { return at_ >= text_.size(); }
  bool next_is(char32_t wanted) const { return !done() && text_[at_] == wanted; }
  bool take(char32_t wanted) {
    if (!next_is(wanted)) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  char32_t take_any() {
    if (done()) fail("ends too early");
    return text_[at_++];
  }

  RegexNode choice();
  RegexNode sequence();
  RegexNode repeated(RegexNode part);
  bool repeat_counts(int& least, int& most);
  std::optional<int> number();
  RegexNode atom();
  RegexNode group();
  void read_flags(bool& until_group_end);
  RegexNode escape();
  std::optional<Op> assertion_of(char32_t letter);
  char32_t escaped_point(char32_t letter);
  char32_t hex_point();
  RegexNode char_class();
  void class_item(Ranges& ranges);
  bool class_escape_set(Ranges& ranges);
  char32_t class_point();

  RegexNode one_of(Ranges ranges, bool negated = false) const {
    return {.kind = Kind::one_of, .set = {std::move(ranges), negated, flags_.fold_case}};
  }
  static RegexNode asserted(Op op) { return {.kind = Kind::assertion, .assertion = op}; }

  std::u32string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Flags flags_;
  bool quoting_ = false;  // between \Q and \E
};

RegexNode Parser::choice() {
  if (++depth_ > kMaxNesting) fail("groups are nested too deeply");
  RegexNode node{.kind = Kind::choice};
  do node.children.push_back(sequence());
  while (take(U'|'));
  --depth_;
  return node;
}

RegexNode Parser::sequence() {
  RegexNode node{.kind = Kind::sequence};
  while (!done()) {
    if (quoting_ && take(U"\\E")) {
      quoting_ = false;
      if (!node.children.empty()) node.children.back() = repeated(std::move(node.children.back()));
    } else if (!quoting_ && take(U"\\Q")) {
      quoting_ = true;
    } else if (!quoting_ && (next_is(U'|') || next_is(U')'))) {
      break;
    } else if (quoting_) {
      const char32_t point = take_any();
      node.children.push_back(one_of({{point, point}}));
    } else {
      node.children.push_back(repeated(atom()));
    }
  }
  return node;
}

std::optional<int> Parser::number() {
  int value = 0;
  const std::size_t start = at_;
  while (!done() && text_[at_] >= '0' && text_[at_] <= '9') {
    value = std::min(value * 10 + static_cast<int>(text_[at_++] - '0'), kMaxRepeat + 1);
  }
  return at_ == start ? std::nullopt : std::optional(value);
}

// {2}, {2,}, {2,5}; anything else in braces is plain text.
bool Parser::repeat_counts(int& least, int& most) {
  const std::size_t start = at_;
  if (!take(U'{')) return false;
  const std::optional<int> low = number();
  std::optional<int> high = low;
  bool open = false;
  if (take(U',')) {
    high = number();
    open = !high.has_value();
  }
  if (!low || !take(U'}')) {
    at_ = start;
    return false;
  }
  least = *low;
  most = open ? -1 : *high;
  if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least)) fail("bad repetition count");
  return true;
}

RegexNode Parser::repeated(RegexNode part) {
  int least = 0;
  int most = -1;
  if (take(U'?')) most = 1;
  else if (take(U'+')) least = 1;
  else if (!take(U'*') && !repeat_counts(least, most)) return part;
  take(U'?');  // fewest first or most first makes no difference to a full match
  int ignored = 0;
  const std::size_t start = at_;
  if (next_is(U'*') || next_is(U'+') || next_is(U'?') || repeat_counts(ignored, ignored))
    fail("a repetition is repeated");
  at_ = start;
  RegexNode node{.kind = Kind::repeat, .least = least, .most = most};
  node.children.push_back(std::move(part));
  return node;
}

RegexNode Parser::atom() {
  const char32_t point = take_any();
  switch (point) {
    case '(': return group();
    case '[': return char_class();
    case '\\': return escape();
    case '.': return flags_.dot_all ? one_of({{0, kLastCodePoint}}) : one_of({{'\n', '\n'}}, true);
    case '^': return asserted(flags_.multi_line ? Op::line_begin : Op::text_begin);
    case '$': return asserted(flags_.multi_line ? Op::line_end : Op::text_end);
    case '*':
    case '+':
    case '?': fail("nothing to repeat");
    default: return one_of({{point, point}});
  }
}

RegexNode Parser::group() {
  const Flags outer = flags_;
  bool until_group_end = false;
  if (take(U"?P<") || take(U"?<")) {
    while (take_any() != '>') {
    }
  } else if (take(U'?')) {
    read_flags(until_group_end);
    if (until_group_end) return {};
  }
  RegexNode node = choice();
  if (!take(U')')) fail("missing ')'");
  flags_ = outer;
  return node;
}

// After "(?": letters, then ':' before a group's content or ')' for the rest of the enclosing group.
void Parser::read_flags(bool& until_group_end) {
  bool value = true;
  for (;;) {
    switch (take_any()) {
      case 'i': flags_.fold_case = value; break;
      case 's': flags_.dot_all = value; break;
      case 'm': flags_.multi_line = value; break;
      case 'U': break;  // swaps fewest first and most first
      case '-':
        if (!value) fail("bad flags");
        value = false;
        break;
      case ':': return;
      case ')': until_group_end = true; return;
      default: fail("bad flags");
    }
  }
}

std::optional<Op> Parser::assertion_of(char32_t letter) {
  switch (letter) {
    case 'A': return Op::text_begin;
    case 'z': return Op::text_end;
    case 'b': return Op::word_edge;
    case 'B': return Op::no_word_edge;
    default: return std::nullopt;
  }
}

RegexNode Parser::escape() {
  --at_;  // class_escape_set() expects the backslash
  Ranges ranges;
  if (class_escape_set(ranges)) return one_of(std::move(ranges));
  ++at_;
  const char32_t letter = take_any();
  if (const std::optional<Op> assertion = assertion_of(letter)) return asserted(*assertion);
  const char32_t point = escaped_point(letter);
  return one_of({{point, point}});
}

char32_t Parser::hex_point() {
  const bool braced = take(U'{');
  char32_t value = 0;
  int digits = 0;
  while (!done() && (braced || digits < 2)) {
    const char32_t c = lower_case(text_[at_]);
    const bool letter = c >= 'a' && c <= 'f';
    if (!letter && (c < '0' || c > '9')) break;
    value = value * 16 + (letter ? c - 'a' + 10 : c - '0');
    if (value > kLastCodePoint) fail("bad \\x escape");
    ++at_;
    ++digits;
  }
  if (digits == 0 || (braced ? !take(U'}') : digits != 2)) fail("bad \\x escape");
  return value;
}

char32_t Parser::escaped_point(char32_t letter) {
  switch (letter) {
    case 'a': return '\a';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'v': return '\v';
    case 'x': return hex_point();
    case 'p':
    case 'P': throw Unsupported("regular expression: \\p classes are not modelled");
    case 'C': throw Unsupported("regular expression: \\C is not modelled");
    default: break;
  }
  const bool octal = letter >= '0' && letter <= '7';
  if (octal && (letter == '0' || (!done() && text_[at_] >= '0' && text_[at_] <= '7'))) {
    char32_t value = letter - '0';
    for (int i = 0; i < 2 && !done() && text_[at_] >= '0' && text_[at_] <= '7'; ++i)
      value = value * 8 + (take_any() - '0');
    return value;
  }
  const bool plain = letter < 0x80 && (letter >= 'a'   ? letter <= 'z'
                                       : letter >= 'A' ? letter <= 'Z'
                                                       : letter >= '0' && letter <= '9');
  if (plain) fail("unknown escape '\\" + encode_utf8({&letter, 1}) + "'");
  return letter;
}

// \d \D \w \W \s \S
bool Parser::class_escape_set(Ranges& ranges) {
  if (!next_is(U'\\') || at_ + 1 >= text_.size()) return false;
  const char32_t letter = text_[at_ + 1];
  const char32_t lower = lower_case(letter);
  if (lower != 'd' && lower != 'w' && lower != 's') return false;
  at_ += 2;
  const char name = static_cast<char>(lower);
  Ranges own = *named_ranges({&name, 1});
  if (letter != lower) own = complement(std::move(own));
  ranges.insert(ranges.end(), own.begin(), own.end());
  return true;
}

char32_t Parser::class_point() {
  const char32_t point = take_any();
  return point == '\\' ? escaped_point(take_any()) : point;
}

void Parser::class_item(Ranges& ranges) {
  if (take(U"[:")) {
    const bool negated = take(U'^');
    const std::size_t end = text_.find(U":]", at_);
    if (end == std::u32string_view::npos) fail("bad class name");
    const std::optional<Ranges> named = named_ranges(encode_utf8(text_.substr(at_, end - at_)));
    if (!named || end - at_ < 4) fail("unknown class name");
    const Ranges own = negated ? complement(*named) : *named;
    ranges.insert(ranges.end(), own.begin(), own.end());
    at_ = end + 2;
    return;
  }
  if (class_escape_set(ranges)) return;
  const char32_t first = class_point();
  char32_t last = first;
  if (next_is(U'-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
    ++at_;
    last = class_point();
    if (last < first) fail("bad range in a character class");
  }
  ranges.emplace_back(first, last);
}

RegexNode Parser::char_class() {
  const bool negated = take(U'^');
  Ranges ranges;
  do class_item(ranges);  // a ']' that comes first stands for itself
  while (!next_is(U']'));
  ++at_;
  return one_of(std::move(ranges), negated);
}

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) throw Error("regular expression is too long");
  const std::u32string text = decode_utf8(pattern);
  return Parser(text).parse();
}

}  // namespace finity
