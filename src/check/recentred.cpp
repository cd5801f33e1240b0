// x f + (b - m f), and x f - m f: a normalisation whose mean is taken off after the scaling, as exporters from
// TensorFlow write it. Each product may be huge where x is nearly constant and f, one over the deviation, large. But
// with d = x - m the sum is d f + b, up to rounding, and what is known of |d| |f| bounds it.
#include <cmath>

#include "check/analyzer.h"

namespace finity {

namespace {

bool same_value(const AbsTensor& a, const AbsTensor& b) { return a.identity.valid() && a.identity == b.identity; }

}  // namespace

// The node that made the value by an op of this kind, if it did so in the plain way.
const Node* Analyzer::made_by(ValueId value, OrderKind kind) const {
  const NodeId producer = value.valid() ? graph_.value(value).producer : NodeId{};
  if (!producer.valid()) return nullptr;
  const Node& node = graph_.node(producer);
  return node.op != nullptr && node.op->traits.order == kind && node.attrs.empty() && node.inputs.size() == 2 ? &node
                                                                                                              : nullptr;
}

// At most |x - m| |f|, where some computed x - m is what f is the inverse of.
double Analyzer::centred_product(ValueId x, ValueId m, ValueId f) {
  const AbsTensor& factor = get(f);
  double least = kInf;
  for (const ProductBound& bound : each<ProductBound>(factor.relations)) {
    const ValueId source = bound.source.value;
    if (bound.of != Of::magnitude || !bound.source.aligned) continue;
    const Node* difference = made_by(source, OrderKind::difference);
    if (difference == nullptr || types_[source].dtype != factor.dtype) continue;
    const bool same = same_value(get(difference->inputs[0]), get(x)) && same_value(get(difference->inputs[1]), get(m));
    if (same && bound.limit < least) least = bound.limit;
  }
  return least;
}

// p - q for products p = x f and q = m f.
double Analyzer::difference_of_products(ValueId p, ValueId q) {
  const Node* left = made_by(p, OrderKind::product);
  const Node* right = made_by(q, OrderKind::product);
  double least = kInf;
  for (std::size_t i = 0; i < 4 && left != nullptr && right != nullptr; ++i) {
    const std::size_t k = i & 1U, l = i >> 1U;
    if (!same_value(get(left->inputs[k]), get(right->inputs[l]))) continue;
    const double product = centred_product(left->inputs[1 - k], right->inputs[1 - l], left->inputs[k]);
    if (product < least) least = product;
  }
  return least;
}

void Analyzer::recentre(const Node& node, RangeCall& call) {
  const bool sum = node.op->traits.order == OrderKind::sum, difference = node.op->traits.order == OrderKind::difference;
  const bool fits = (sum || difference) && node.attrs.empty() && node.inputs.size() == 2;
  if (!fits || restricted() || !call.given()[0] || !is_float(call.outs()[0].dtype)) return;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId p = node.inputs[i], rest = node.inputs[1 - i];
    if (difference) {
      if (i == 0) keep_near(call.outs()[0], point(0), difference_of_products(p, rest), {p, rest});
      continue;
    }
    const Node* shifted = made_by(rest, OrderKind::difference);
    if (shifted == nullptr) continue;
    const ValueId b = shifted->inputs[0], q = shifted->inputs[1];
    keep_near(call.outs()[0], get(b).hull(), difference_of_products(p, q), {p, rest, q, b});
  }
}

// The result lies within `distance` of `centre`, up to the rounding of what it is computed from: the largest of these
// numbers are off by a unit each, the sums of two of them too.
void Analyzer::keep_near(AbsTensor& result, const Range& centre, double distance,
                         std::initializer_list<ValueId> parts) {
  if (!(distance < kInf) || !centre.is_finite() || options_.ranges.flush_subnormals) return;
  double largest = 0;
  for (const ValueId part : parts) {
    const Range hull = get(part).hull();
    if (!hull.is_finite() || get(part).dtype != result.dtype) return;
    largest += hull.magnitude();
  }
  const double unit = unit_roundoff(result.dtype);
  const double error = 4 * unit * largest + 4 * min_subnormal(result.dtype);
  const double reach = distance * (1 + 4 * unit) + error;
  const Range near = from_bounds(result.dtype, centre.lo - reach, centre.hi + reach, 1);
  if (!near.is_finite()) return;
  for (Range& cell : result.cells) {
    if (!cell.has_finite()) continue;
    cell = meet(cell, near);
  }
}

}  // namespace finity
