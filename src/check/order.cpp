// Which of two values is the larger one, element by element, by how they were
// computed: the overlap of two boxes is no larger than either.
#include <algorithm>
#include <functional>

#include "check/analyzer.h"
#include "ops/table/op.h"

namespace finity {

namespace {

// A value, perhaps seen through a node that inserts axes.
struct Term {
  ValueId value = {};
  NodeId axes = {};
};

class OrderSearch {
 public:
  using Get = std::function<const AbsTensor&(ValueId)>;
  using Rounds = std::function<bool(const Node&)>;
  OrderSearch(const Graph& graph, const Types& types, Get get, Rounds rounds)
      : graph_(graph), types_(types), get_(std::move(get)), rounds_(std::move(rounds)) {}

  bool not_below(const Term& whole, const Term& part, int depth = 0);

 private:
  const Node* producer(ValueId id) const {
    const NodeId node = graph_.value(id).producer;
    return node.valid() && graph_.node(node).op != nullptr ? &graph_.node(node) : nullptr;
  }
  // What made the term, where its operands can be looked at in its place.
  const Node* maker(const Term& term) const;
  OrderKind kind_of(const Node* node) const {
    return node != nullptr && !rounds_(*node) ? node->op->traits.order : OrderKind::none;
  }
  Term operand(const Term& term, const Node& node, std::size_t i) const;
  bool same_value(ValueId a, ValueId b, int depth);
  bool same(const Term& a, const Term& b, int depth);
  bool by_relations(const Term& whole, const Term& part);
  bool by_sum(const Term& whole, const Node& node, const Term& part, int depth);
  bool floored_below(const Term& whole, const Term& part, const Node& node, int depth);
  bool by_operands(const Term& whole, const Node& above, const Term& part, const Node& below, int depth);
  bool any(const Term& term, const Node& node, const std::function<bool(const Term&)>& f) const;
  bool all(const Term& term, const Node& node, const std::function<bool(const Term&)>& f) const;

  const Graph& graph_;
  const Types& types_;
  Get get_;
  Rounds rounds_;  // a node that sees other digits than its neighbours
  int steps_ = 0;
};

constexpr int kDeep = 10;
constexpr int kMostSteps = 400;

const Node* OrderSearch::maker(const Term& term) const {
  const Node* node = producer(term.value);
  if (node == nullptr || !node->attrs.empty() || node->inputs.empty()) return nullptr;
  if (!term.axes.valid()) return node;
  // Axes are counted alike in operands of the same rank.
  const auto same_rank = [&](ValueId input) {
    return input.valid() && types_[input].ranked && types_[term.value].ranked &&
           (types_[input].shape.size() == types_[term.value].shape.size() || types_[input].shape.empty());
  };
  return std::ranges::all_of(node->inputs, same_rank) ? node : nullptr;
}

Term OrderSearch::operand(const Term& term, const Node& node, std::size_t i) const {
  const bool scalar = types_[node.inputs[i]].ranked && types_[node.inputs[i]].shape.empty();
  return {node.inputs[i], scalar ? NodeId{} : term.axes};
}

// The same elements: one value, equal constants, or the same computation of such.
bool OrderSearch::same_value(ValueId a, ValueId b, int depth) {
  if (!a.valid() || !b.valid()) return !a.valid() && !b.valid();
  const AbsTensor& left = get_(a);
  const AbsTensor& right = get_(b);
  if (a == b || (left.identity.valid() && left.identity == right.identity && left.dtype == right.dtype)) return true;
  if (left.exact && right.exact) return left.exact == right.exact || identical(*left.exact, *right.exact);
  const Node* p = producer(a);
  const Node* q = producer(b);
  if (p == nullptr || q == nullptr || p->op != q->op || p->op->traits.random || depth > kDeep || ++steps_ > kMostSteps)
    return false;
  const bool alike = p->version == q->version && !rounds_(*p) && p->outputs.size() == 1 && q->outputs.size() == 1 &&
                     p->body == q->body && p->inputs.size() == q->inputs.size() &&
                     std::ranges::equal(p->attrs, q->attrs) && bodies_of(p->attrs).empty();
  for (std::size_t i = 0; alike && i < p->inputs.size(); ++i) {
    if (!same_value(p->inputs[i], q->inputs[i], depth + 1)) return false;
  }
  return alike;
}

bool OrderSearch::same(const Term& a, const Term& b, int depth) {
  if (a.axes.valid() && b.axes.valid()) {
    return same_value(graph_.node(a.axes).inputs[1], graph_.node(b.axes).inputs[1], depth) &&
           same_value(a.value, b.value, depth);
  }
  if (!a.axes.valid() && !b.axes.valid()) return same_value(a.value, b.value, depth);
  const Term& seen = a.axes.valid() ? a : b;
  const Node* node = producer(a.axes.valid() ? b.value : a.value);
  return kind_of(node) == OrderKind::insert_axes && node->inputs.size() == 2 &&
         same_value(graph_.node(seen.axes).inputs[1], node->inputs[1], depth) &&
         same_value(seen.value, node->inputs[0], depth);
}

// What was found when the value was made.
bool OrderSearch::by_relations(const Term& whole, const Term& part) {
  if (whole.axes.valid() || part.axes.valid()) return false;
  const AbsTensor& sum = get_(whole.value);
  const AbsTensor& x = get_(part.value);
  const auto above = [&](ValueId source) {
    const AggregateBound* order = find_below(sum.relations, Of::largest, source);
    return order != nullptr && order->source.aligned && order->is_exact();
  };
  const auto between = [&](const AggregateBound& bound) {
    return bound.of == Of::smallest && bound.bounds_above() && bound.source.aligned && bound.is_exact() &&
           above(bound.source.value);
  };
  return above(x.identity) || std::ranges::any_of(each<AggregateBound>(x.relations), between);
}

// Rounding is monotone: x + y, rounded, is at least x where y is not negative.
bool OrderSearch::by_sum(const Term& whole, const Node& node, const Term& part, int depth) {
  const auto adds_to = [&](std::size_t k) {
    const Range other = get_(node.inputs[1 - k]).hull();
    return other.is_finite() && other.lo >= 0 && not_below(operand(whole, node, k), part, depth + 1);
  };
  return adds_to(0) || adds_to(1);
}

// max(x, floor) is no more than what is at least both.
bool OrderSearch::floored_below(const Term& whole, const Term& part, const Node& node, int depth) {
  const Range limit = node.inputs.size() > 1 && node.inputs[1].valid() ? get_(node.inputs[1]).hull() : point(0);
  const Range least = get_(whole.value).hull();
  return limit.is_finite() && least.is_finite() && least.lo >= limit.hi &&
         not_below(whole, operand(part, node, 0), depth + 1);
}

bool OrderSearch::any(const Term& term, const Node& node, const std::function<bool(const Term&)>& f) const {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (f(operand(term, node, i))) return true;
  }
  return false;
}

bool OrderSearch::all(const Term& term, const Node& node, const std::function<bool(const Term&)>& f) const {
  return !any(term, node, [&](const Term& each) { return !f(each); });
}

// The same op on both sides, operand by operand.
bool OrderSearch::by_operands(const Term& whole, const Node& above, const Term& part, const Node& below, int depth) {
  const OrderKind kind = kind_of(&above);
  if (above.op != below.op || above.inputs.size() != below.inputs.size() || above.inputs.empty()) return false;
  const auto rises = [&](std::size_t i, std::size_t k) {
    return not_below(operand(whole, above, i), operand(part, below, k), depth + 1);
  };
  const auto falls = [&](std::size_t i) {
    return not_below(operand(part, below, i), operand(whole, above, i), depth + 1);
  };
  const auto same_rest = [&] {
    for (std::size_t i = 1; i < above.inputs.size(); ++i) {
      if (!same_value(above.inputs[i], below.inputs[i], depth)) return false;
    }
    return true;
  };
  const auto positive = [&](const Node& node) {
    return std::ranges::all_of(node.inputs, [&](ValueId id) { return get_(id).hull().nonnegative(); });
  };
  switch (kind) {
    case OrderKind::difference: return rises(0, 0) && falls(1);
    case OrderKind::floored: return same_rest() && rises(0, 0);
    case OrderKind::product:
      if (!positive(above) || !positive(below)) return false;
      [[fallthrough]];
    case OrderKind::sum: return (rises(0, 0) && rises(1, 1)) || (rises(0, 1) && rises(1, 0));
    default: return false;
  }
}

bool OrderSearch::not_below(const Term& whole, const Term& part, int depth) {
  if (depth > kDeep || ++steps_ > kMostSteps || types_[whole.value].dtype != types_[part.value].dtype) return false;
  const Range above = get_(whole.value).hull(), below = get_(part.value).hull();
  if (above.nan || below.nan) return false;
  if (above.is_finite() && below.is_finite() && above.lo >= below.hi) return true;
  if (same(whole, part, depth) || by_relations(whole, part)) return true;
  const Node* upper = maker(whole);
  const Node* lower = maker(part);
  const OrderKind up = kind_of(upper), down = kind_of(lower);
  if (up == OrderKind::insert_axes && !whole.axes.valid()) {
    return not_below({upper->inputs[0], graph_.value(whole.value).producer}, part, depth + 1);
  }
  if (up != OrderKind::none && lower != nullptr && by_operands(whole, *upper, part, *lower, depth)) return true;
  const auto above_part = [&](const Term& each) { return not_below(each, part, depth + 1); };
  const auto below_whole = [&](const Term& each) { return not_below(whole, each, depth + 1); };
  if (up == OrderKind::sum && by_sum(whole, *upper, part, depth)) return true;
  if (up == OrderKind::largest && any(whole, *upper, above_part)) return true;
  if (up == OrderKind::smallest && all(whole, *upper, above_part)) return true;
  if (down == OrderKind::smallest && any(part, *lower, below_whole)) return true;
  if (down == OrderKind::largest && all(part, *lower, below_whole)) return true;
  return down == OrderKind::floored && floored_below(whole, part, *lower, depth);
}

}  // namespace

bool Analyzer::not_below(ValueId whole, ValueId part) {
  if (!whole.valid() || !part.valid() || !is_float(types_[whole].dtype)) return false;
  const bool exact = options_.ranges.runtime != Runtime::any || (!may_be_unrounded(whole) && !may_be_unrounded(part));
  if (!exact) return false;
  OrderSearch order(
      graph_, types_, [this](ValueId id) -> const AbsTensor& { return get(id); },
      [this](const Node& node) { return may_round(node); });
  return order.not_below({whole, {}}, {part, {}});
}

}  // namespace finity
