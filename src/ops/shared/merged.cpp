#include "ops/shared/merged.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/linear/dot_range.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr Range kOverflown = {.nan = true, .pinf = true, .ninf = true};

// An operand without the constant factors it was multiplied by.
struct Unscaled {
  Range values = {};
  double factor = 1;
  int steps = 0;
};

// A constant of one element, such as optimisers move about.
std::optional<double> single_constant(const Upstream& value) {
  const AbsTensor* range = value.range();
  if (range == nullptr || !range->exact || range->exact->size() != 1 || !is_float(range->dtype)) return std::nullopt;
  return elements<double>(*range->exact).front();
}

// The operand of a product that its other operand, a constant, scales; nothing when there is none.
Upstream scaled_operand(const Upstream& product, double& factor) {
  const Merge merge = product.op()->traits.merge;
  if (merge == Merge::movement) return product.input(0);
  if (product.input_count() != 2 || (merge != Merge::factor && merge != Merge::divisor)) return {};
  const bool divides = merge == Merge::divisor;
  if (const auto right = single_constant(product.input(1))) {
    factor *= divides ? 1 / *right : *right;
    return product.input(0);
  }
  if (divides) return {};
  if (const auto left = single_constant(product.input(0))) {
    factor *= *left;
    return product.input(1);
  }
  return {};
}

Unscaled unscaled(const RangeCall& call, std::size_t operand) {
  constexpr int kMostSteps = 8;
  Unscaled result{.values = call.hull(operand)};
  Upstream value = call.upstream(operand);
  for (int step = 0; step < kMostSteps && value.op() != nullptr; ++step) {
    const double before = result.factor;
    value = scaled_operand(value, result.factor);
    const AbsTensor* range = value.range();
    if (range == nullptr) break;
    if (result.factor == before) continue;
    result.values = range->hull();
    ++result.steps;
  }
  return result;
}

// As the format of kernels holds it: lost, or infinite.
bool is_ordinary(DType format, double factor) {
  return std::abs(factor) <= max_finite(format) && std::abs(factor) * unit_roundoff(format) > min_subnormal(format);
}

// Other roundings and underflow on the way do not change a sign.
void widen(Range& cell, DType dtype, double slack) {
  if (!cell.has_finite() || !(slack > 0)) return;
  const double lo = std::max(round_to(dtype, cell.lo - slack), lowest_finite(dtype));
  const double hi = std::min(round_to(dtype, cell.hi + slack), max_finite(dtype));
  cell.lo = cell.lo >= 0 ? std::max(lo, 0.0) : lo;
  cell.hi = cell.hi <= 0 ? std::min(hi, 0.0) : hi;
  cell.nonzero = cell.integer = false;
}

}  // namespace

void apply_factors_last(RangeCall& call, double terms, AbsTensor& result) {
  if (!is_float(result.dtype) || !call.may(Way::scales_last)) return;
  const Unscaled a = unscaled(call, 0), b = unscaled(call, 1);
  if (a.steps + b.steps == 0 || !a.values.has_finite() || !b.values.has_finite()) return;
  const DType carrier = call.accumulators(result.dtype).back();
  const double factor = a.factor * b.factor;
  DotSum sum;
  add_products(sum, a.values.finite(), b.values.finite(), 0, terms);
  const Range total = rounded(call, carrier, sum, terms);
  const double lost = std::abs(factor) * terms * min_subnormal(carrier);
  for (Range& cell : result.cells) {
    widen(cell, result.dtype, lost + (8 + a.steps + b.steps) * unit_roundoff(carrier) * cell.magnitude());
    if (!is_ordinary(carrier, factor)) cell = join(cell, point(0));
  }
  if (!(std::abs(factor) <= max_finite(carrier))) call.besides(0, {.nan = true});
  if (total.pinf || total.ninf || total.nan) call.besides(0, kOverflown);
}

namespace {

// Operand `product`, when what follows it may be merged into the weights it is computed with; else nothing.
Upstream merging(const RangeCall& call, std::size_t product, const AbsTensor& result) {
  const Upstream upstream = call.upstream(product);
  if (upstream.op() == nullptr || call.settings().runtime == Runtime::exact || !is_float(result.dtype)) return {};
  return upstream.op()->analysis.grants.ways.has(Way::scales_weights) ? upstream : Upstream();
}

// A weight of the file; null when it is none.
const AbsTensor* weight_of(const Upstream& product, std::size_t input) {
  const Upstream weight = product.input(input);
  const AbsTensor* range = weight.range();
  return range != nullptr && (weight.is_weight() || range->exact) ? range : nullptr;
}

}  // namespace

void add_to_bias_first(RangeCall& call, std::size_t product, double term, AbsTensor& result) {
  const AbsTensor* bias = weight_of(merging(call, product, result), 2);
  if (bias == nullptr || bias->hull().magnitude() + term <= max_finite(result.dtype)) return;
  call.besides(0, kOverflown);
}

void multiply_weights_first(RangeCall& call, std::size_t product, double factor, AbsTensor& result) {
  const Upstream upstream = merging(call, product, result);
  const AbsTensor* range = weight_of(upstream, 1);
  const AbsTensor* x = upstream.input(0).range();
  if (range == nullptr || x == nullptr) return;
  const DType format = result.dtype;
  const bool overflows = !(range->hull().magnitude() * factor <= max_finite(format));
  const double lost = x->hull().magnitude() * range->most_count(~std::uint32_t{0}) * min_subnormal(format);
  for (Range& cell : result.cells) widen(cell, format, lost);
  if (overflows) call.besides(0, kOverflown);
}

}  // namespace finity
