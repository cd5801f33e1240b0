#include "ops/extra/text/regex.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/extra/text/regex_parser.h"
#include "ops/extra/text/utf8.h"

namespace finity {

namespace {

using State = Regex::State;
using Op = Regex::Op;

// Bounds on what a pattern may cost.
constexpr std::size_t kMaxStates = 20000;
constexpr std::size_t kMaxSteps = std::size_t{1} << 30;

// Builds the automaton back to front: each part is given the state to go on to.
class Compiler {
 public:
  explicit Compiler(std::vector<State>& states) : states_(states) {}

  int add(State state) {
    if (states_.size() >= kMaxStates) throw Error("regular expression is too large");
    states_.push_back(std::move(state));
    return static_cast<int>(states_.size()) - 1;
  }

  int compile(const RegexNode& node, int next) {
    switch (node.kind) {
      case RegexNode::Kind::one_of: return add({.op = Op::one_of, .next = next, .set = node.set});
      case RegexNode::Kind::assertion: return add({.op = node.assertion, .next = next});
      case RegexNode::Kind::sequence:
        for (std::size_t i = node.children.size(); i-- > 0;) next = compile(node.children[i], next);
        return next;
      case RegexNode::Kind::choice: return compile_choice(node, next);
      case RegexNode::Kind::repeat: return compile_repeat(node, next);
    }
    return next;
  }

 private:
  int compile_choice(const RegexNode& node, int next) {
    int entry = compile(node.children.back(), next);
    for (std::size_t i = node.children.size() - 1; i-- > 0;) {
      entry = add({.op = Op::fork, .next = compile(node.children[i], next), .other = entry});
    }
    return entry;
  }

  // x{2,4} is x x (x (x)?)?, x{2,} is x x x*.
  int compile_repeat(const RegexNode& node, int next) {
    const RegexNode& part = node.children.front();
    int entry = next;
    if (node.most < 0) {
      entry = add({.op = Op::fork, .next = -1, .other = next});
      const int inside = compile(part, entry);
      states_[static_cast<std::size_t>(entry)].next = inside;
    } else {
      for (int i = node.least; i < node.most; ++i)
        entry = add({.op = Op::fork, .next = compile(part, entry), .other = next});
    }
    for (int i = 0; i < node.least; ++i) entry = compile(part, entry);
    return entry;
  }

  std::vector<State>& states_;
};

bool is_word(char32_t point) {
  return (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') || (point >= 'a' && point <= 'z') ||
         point == '_';
}

bool holds(Op assertion, std::u32string_view text, std::size_t at) {
  const bool begin = at == 0;
  const bool end = at == text.size();
  const bool edge = (!begin && is_word(text[at - 1])) != (!end && is_word(text[at]));
  switch (assertion) {
    case Op::text_begin: return begin;
    case Op::text_end: return end;
    case Op::line_begin: return begin || text[at - 1] == '\n';
    case Op::line_end: return end || text[at] == '\n';
    case Op::word_edge: return edge;
    default: return !edge;
  }
}

// The states reached so far, each once.
class Frontier {
 public:
  explicit Frontier(std::size_t count) : seen_(count, false) {}

  const std::vector<int>& consuming() const { return consuming_; }
  bool accepted() const { return accepted_; }
  void clear() {
    seen_.assign(seen_.size(), false);
    consuming_.clear();
    accepted_ = false;
  }
  // Follows everything that consumes nothing, with an explicit stack: patterns nest deeper than ours.
  void enter(const std::vector<State>& states, int start, std::u32string_view text, std::size_t at) {
    pending_.push_back(start);
    while (!pending_.empty()) {
      const int index = pending_.back();
      pending_.pop_back();
      const auto place = static_cast<std::size_t>(index);
      if (seen_[place]) continue;
      seen_[place] = true;
      const State& state = states[place];
      if (state.op == Op::accept) {
        accepted_ = true;
      } else if (state.op == Op::one_of) {
        consuming_.push_back(index);
      } else if (state.op == Op::fork) {
        pending_.push_back(state.other);
        pending_.push_back(state.next);
      } else if (holds(state.op, text, at)) {
        pending_.push_back(state.next);
      }
    }
  }

 private:
  std::vector<bool> seen_;
  std::vector<int> consuming_;
  std::vector<int> pending_;
  bool accepted_ = false;
};

}  // namespace

bool Regex::CharSet::contains(char32_t point) const {
  if (point > kLastCodePoint) return false;  // not valid UTF-8
  const auto listed = [&](char32_t wanted) {
    return std::ranges::any_of(ranges,
                               [=](const auto& range) { return wanted >= range.first && wanted <= range.second; });
  };
  const bool found = listed(point) || (fold_case && (listed(lower_case(point)) || listed(upper_case(point))));
  return found != negated;
}

Regex::Regex(std::string_view pattern) {
  const RegexNode tree = parse_regex(pattern);
  Compiler compiler(states_);
  const int end = compiler.add({.op = Op::accept});
  start_ = compiler.compile(tree, end);
}

bool Regex::matches_all_of(std::string_view text) const {
  const std::u32string points = decode_utf8(text);
  if (points.size() > kMaxSteps / states_.size()) throw Error("string is too long for this regular expression");
  Frontier now(states_.size());
  Frontier later(states_.size());
  now.enter(states_, start_, points, 0);
  for (std::size_t at = 0; at < points.size(); ++at) {
    if (now.consuming().empty()) return false;
    later.clear();
    for (const int index : now.consuming()) {
      const State& state = states_[static_cast<std::size_t>(index)];
      if (state.set.contains(points[at])) later.enter(states_, state.next, points, at + 1);
    }
    std::swap(now, later);
  }
  return now.accepted();
}

}  // namespace finity
