#include "ops/control/growth.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "ops/shared/mix.h"
#include "ops/table/op.h"

namespace finity {

namespace {

// Beyond this a range says no more than that numbers are finite.
constexpr double kSmall = 1e30;

Growth larger(const Growth& a, const Growth& b) {
  if (a.slope == 0 && b.slope > 0) return larger(b, a);
  if (b.slope == 0) return {a.slope, a.offset, std::max(a.floor, b.floor + b.offset)};
  return {std::max(a.slope, b.slope), std::max(a.offset, b.offset), std::max(a.floor, b.floor)};
}

Growth times(const Growth& growth, double factor) {
  return {growth.slope * factor, growth.offset * factor, growth.floor * factor};
}

Growth sum(const Growth& a, const Growth& b) { return {a.slope + b.slope, a.offset + a.floor + b.offset + b.floor, 0}; }

class GrowthFinder {
 public:
  GrowthFinder(const Graph& graph, const std::function<const AbsTensor*(ValueId)>& range_of)
      : graph_(graph), range_of_(range_of), around_{graph, range_of} {}

  Growth run(BodyId body, ValueId state, ValueId output) {
    known_[state] = {1, 0};
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      const Growth growth = of_node(node);
      for (const ValueId out : node.outputs) {
        if (out.valid()) known_[out] = better(growth, of_range(out));
      }
    }
    return of(output);
  }

 private:
  double magnitude(ValueId id) const {
    const AbsTensor* range = range_of_(id);
    if (range == nullptr) return kInf;
    const Range hull = range->hull();
    return hull.nan || hull.pinf || hull.ninf ? kInf : hull.magnitude();
  }

  Growth of_range(ValueId id) const { return {0, magnitude(id)}; }

  Growth of(ValueId id) const {
    const auto found = known_.find(id);
    return found == known_.end() ? of_range(id) : found->second;
  }

  static Growth better(const Growth& computed, const Growth& own) { return own.offset < kSmall ? own : computed; }

  // The result of an operation in the node's format.
  Growth rounded(const Node& node, Growth growth) const {
    const AbsTensor* range = range_of_(node.outputs.front());
    if (range == nullptr || !is_float(range->dtype)) return {};
    Growth result = times(growth, 1 + 2 * unit_roundoff(range->dtype));
    result.offset += min_subnormal(range->dtype);
    return result;
  }

  Growth of_node(const Node& node) const {
    if (node.op == nullptr || node.inputs.empty() || !node.inputs.front().valid()) return {};
    switch (node.op->traits.elements) {
      case ElementSource::moved:
      case ElementSource::bounded: return of(node.inputs.front());
      case ElementSource::joined: return largest_from(node, 0);
      case ElementSource::chosen: return largest_from(node, 1);
      default: break;
    }
    switch (node.op->traits.order) {
      case OrderKind::sum:
      case OrderKind::difference: {
        const std::optional<Growth> mix = mixed(node);
        return rounded(node, mix ? *mix : sum(of(node.inputs[0]), of(node.inputs[1])));
      }
      case OrderKind::product: return rounded(node, product(node.inputs[0], node.inputs[1]));
      default: return {};
    }
  }

  Growth largest_from(const Node& node, std::size_t first) const {
    Growth growth = {0, 0};
    for (std::size_t i = first; i < node.inputs.size(); ++i) growth = larger(growth, of(node.inputs[i]));
    return growth;
  }

  // One factor in terms of the state, the other by its range.
  Growth product(ValueId a, ValueId b) const {
    const auto by_range = [&](ValueId x, ValueId y) {
      const double by = magnitude(y);
      return by < kSmall ? times(of(x), by) : Growth{};
    };
    const Growth one = by_range(a, b), other = by_range(b, a);
    return one.offset < other.offset || (one.offset == other.offset && one.slope <= other.slope) ? one : other;
  }

  // Of an operand of a mix: it is among the operands of the sum, of its products or of their differences.
  Growth of_part(ValueId result, const Upstream& part, int depth = 3) const {
    const NodeId producer = graph_.value(result).producer;
    if (!producer.valid() || depth == 0) return {};
    for (const ValueId id : graph_.node(producer).inputs) {
      if (part.is({around_, id})) return of(id);
    }
    for (const ValueId id : graph_.node(producer).inputs) {
      if (const Growth deeper = of_part(id, part, depth - 1); std::isfinite(deeper.offset)) return deeper;
    }
    return {};
  }

  // Of z * a + (1 - z) * b: no larger than a or b where z is between 0 and 1, up to what it exceeds that by.
  std::optional<Growth> mixed(const Node& node) const {
    const AbsTensor* result = range_of_(node.outputs.front());
    if (result == nullptr || !is_float(result->dtype) || !result->ranked) return std::nullopt;
    const std::optional<Mix> mix =
        find_mix(node.op->traits.order, {around_, node.inputs[0]}, {around_, node.inputs[1]}, result->rank());
    const std::optional<double> excess = mix ? excess_of_share(*mix) : std::nullopt;
    if (!excess) return std::nullopt;
    // Two roundings of up to twice the size, and one of the sum.
    constexpr double kRoundings = 8;
    const double weight = (1 + 2 * *excess) * (1 + kRoundings * unit_roundoff(result->dtype));
    const ValueId sum = node.outputs.front();
    Growth growth = times(larger(of_part(sum, mix->a), of_part(sum, mix->b)), weight);
    growth.offset += kRoundings * min_subnormal(result->dtype);
    return growth;
  }

  const Graph& graph_;
  const std::function<const AbsTensor*(ValueId)>& range_of_;
  Upstream::Around around_;
  std::unordered_map<ValueId, Growth> known_ = {};
};

}  // namespace

Growth growth_of(const Graph& graph, BodyId body, ValueId state, ValueId output,
                 const std::function<const AbsTensor*(ValueId)>& range_of) {
  return GrowthFinder(graph, range_of).run(body, state, output);
}

double largest_after(double trips, double start, const Growth& each) {
  if (!std::isfinite(start) || !std::isfinite(each.offset)) return kInf;
  start = std::max(start, each.floor);
  constexpr double kSlack = 1 + 1e-9;  // for what is computed here
  if (each.slope < 1) return (std::max(start, each.offset / (1 - each.slope))) * kSlack;
  if (!std::isfinite(trips)) return kInf;
  const double excess = each.slope - 1;
  const double power = std::exp(trips * std::log1p(excess)) * kSlack;
  const double sum = excess > 0 ? (power - 1) / excess : trips;
  const double largest = power * start + each.offset * std::max(sum, trips) * kSlack;
  return std::isfinite(largest) ? largest : kInf;
}

}  // namespace finity
