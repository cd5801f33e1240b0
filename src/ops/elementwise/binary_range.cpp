#include "ops/elementwise/binary_range.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "domain/row_bounds.h"
#include "ops/norm/norm_relations.h"
#include "ops/shared/function_range.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/merged.h"
#include "ops/shared/mix.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "ops/shared/relations.h"
#include "ops/shared/sum_relations.h"
#include "ops/table/op.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

UnsafeSet zero_of_integers(DType dtype) { return is_int(dtype) ? UnsafeSet{{0, 0}} : UnsafeSet{}; }

constexpr std::array kDivision = {Hazard{.rule = "FN101", .operand = 1, .unsafe = unsafe_zero_of_floats},
                                  Hazard{.rule = "FN113", .operand = 1, .unsafe = zero_of_integers}};
constexpr std::array kModulo = {Hazard{.rule = "FN112", .operand = 1, .unsafe = unsafe_zero}};

// Shapes are known well enough to relate elements, and placed the numpy way.
bool relatable(const RangeCall& call) {
  return call.out_type(0).ranked && call.in(0).ranked && call.in(1).ranked && !broadcasts_legacy(call);
}

// Integers that wrap have no order.
bool may_wrap(DType dtype, double lo, double hi) {
  return !is_float(dtype) && !(lo >= lowest_finite(dtype) && hi <= max_finite(dtype));
}

// One minus a mask, a mask times the lowest number: what becomes of the elements that every row has.
void carry_elements(const RangeCall& call, Range (*f)(DType, const Range&, const Range&), AbsTensor& result) {
  const AbsTensor& a = call.in(0);
  const AbsTensor& b = call.in(1);
  carry_row_elements(a, result, [&](const Range& element) { return f(result.dtype, element, b.hull()); });
  carry_row_elements(b, result, [&](const Range& element) { return f(result.dtype, a.hull(), element); });
}

using MergeFirst = void (*)(RangeCall& call, std::size_t product, double constant, AbsTensor& result);

// What an optimiser makes of a constant operand and a product as the other one.
void merge_constants(RangeCall& call, MergeFirst merge) {
  if (!call.has_output(0)) return;
  for (const std::size_t constant : {std::size_t{0}, std::size_t{1}}) {
    const bool known = call.operand(constant).constant || call.in(constant).exact;
    if (known) merge(call, 1 - constant, call.hull(constant).magnitude(), call.outs()[0]);
  }
}

void add_operands(RangeCall& call) {
  const AbsTensor& a = call.in(0);
  const AbsTensor& b = call.in(1);
  if (!relatable(call)) {
    return range_binary(call, [](const Range& x, const Range& y, DType dtype) { return add(dtype, x, y); });
  }
  AbsTensor result = affine_sum(call, a, b, false);
  const Range x = a.hull(), y = b.hull();
  if (may_wrap(result.dtype, x.lo + y.lo, x.hi + y.hi)) return call.out(0, std::move(result));
  use_case_splits(a, b, call.out_dtype(0), result);
  carry_lower_bounds(call, a, b, result);
  carry_lower_bounds(call, b, a, result);
  carry_row_max(call, a, b, false, result);
  carry_row_max(call, b, a, false, result);
  carry_elements(call, add, result);
  call.out(0, std::move(result));
}

}  // namespace

Hazards division_hazards() { return kDivision; }
Hazards modulo_hazards() { return kModulo; }

void range_add(RangeCall& call) {
  add_operands(call);
  limit_mix(OrderKind::sum, call);
  merge_constants(call, add_to_bias_first);
}

namespace {

void subtract_operands(RangeCall& call) {
  const AbsTensor& a = call.in(0);
  const AbsTensor& b = call.in(1);
  if (!relatable(call)) {
    return range_binary(call, [](const Range& x, const Range& y, DType dtype) { return subtract(dtype, x, y); });
  }
  AbsTensor result = affine_sum(call, a, b, true);
  const Range x = a.hull(), y = b.hull();
  if (may_wrap(result.dtype, x.lo - y.hi, x.hi - y.lo)) return call.out(0, std::move(result));
  use_order(a, b, result);
  // Asked only where it matters: what is not negative less a part of it.
  const bool parts = is_float(result.dtype) && x.nonnegative() && y.nonnegative() && result.hull().may_be_negative();
  if (parts && !call.settings().flush_subnormals && call.not_below(0, 1)) cap_below(result, 0);
  add_maximum_splits(call, a, b, result);
  if (find_rows(result.relations, Of::largest) == nullptr) carry_row_max(call, a, b, true, result);
  carry_elements(call, subtract, result);
  use_variance(call, a, b, result);
  call.out(0, std::move(result));
}

}  // namespace

void range_subtract(RangeCall& call) {
  subtract_operands(call);
  limit_mix(OrderKind::difference, call);
}

namespace {

// A square with its rounding, and what it is the square of: x, and what x is the mean of. Pow is a library function:
// its squares may be a few units off.
void add_squares(const AbsTensor& x, int ulps, AbsTensor& result) {
  const double unit = unit_roundoff(result.dtype), tiny = min_subnormal(result.dtype);
  const double error = (1 + 2 * ulps) * unit;
  if (x.identity.valid()) {
    result.relations.push_back(
        AggregateBound{.source = {x.identity}, .of = Of::square, .relative = error, .absolute = (1 + 2 * ulps) * tiny});
  }
  for (const AggregateBound& mean : each<AggregateBound>(x.relations)) {
    if (mean.of != Of::mean || mean.order != Order::equal) continue;
    const double r = mean.relative;
    result.relations.push_back(AggregateBound{.source = mean.source,
                                              .of = Of::squared_mean,
                                              .relative = (2 * r + r * r) * (1 + error) + error + 4 * tiny,
                                              .absolute = (4 + 2 * ulps) * tiny});
  }
}

// x * x: never negative, and known to be a square.
void range_square(RangeCall& call, int ulps) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  AbsTensor result = map_cells(x, dtype, [&](const Range& cell) { return square(dtype, cell); });
  if (!is_float(dtype)) return call.out(0, std::move(result));
  add_squares(x, ulps, result);
  if (!x.hull().may_be_negative() && ulps == 0) {
    for (const RowBound& rows : each<RowBound>(x.relations)) {
      const auto of_range = [&](const Range& r) { return square(dtype, r); };
      if (auto turned = mapped(rows, Monotone::increasing, of_range)) result.relations.push_back(*turned);
    }
  }
  call.out(0, std::move(result));
}

// x times something that shrinks as x grows: x * rsqrt(mean(x^2) + eps).
void use_inverse(RangeCall& call, const AbsTensor& x, const AbsTensor& inverse) {
  if (!x.hull().is_finite() || !call.has_output(0) || !x.identity.valid()) return;
  for (const ProductBound& bound : each<ProductBound>(inverse.relations)) {
    if (bound.of != Of::magnitude || bound.source.value != x.identity || !bound.source.aligned) continue;
    return cap_magnitude(call.outs()[0], bound.limit * (1 + 4 * unit_roundoff(call.out_dtype(0))));
  }
}

// What shrinks as a source grows still does so times something bounded; where that underflows, the source makes at most
// this of what is lost.
void carry_inverse(const RangeCall& call, const AbsTensor& inverse, const AbsTensor& factor, AbsTensor& result) {
  const DType dtype = result.dtype;
  if (!is_float(dtype) || call.settings().flush_subnormals || !factor.hull().is_finite()) return;
  if (!inverse.hull().is_finite() || !inverse.ranked || result.rank() != inverse.rank()) return;
  for (const ProductBound& bound : each<ProductBound>(inverse.relations)) {
    if (bound.of != Of::magnitude || !bound.source.aligned) continue;
    ProductBound moved = bound;
    moved.limit = bound.limit * factor.hull().magnitude() * (1 + 4 * unit_roundoff(dtype)) +
                  max_finite(dtype) * min_subnormal(dtype);
    if (moved.limit < max_finite(dtype)) result.relations.push_back(moved);
  }
}

// Multiplying or dividing by a positive constant keeps the order of elements, and bounds of another value's size: a
// largest absolute value over 127.
void carry_scaled(const RangeCall& call, const AbsTensor& x, double factor,
                  Range (*scale)(DType, const Range&, const Range&), AbsTensor& result) {
  if (!(factor > 0) || !std::isfinite(factor) || !keeps_shape(call, x)) return;
  if (may_wrap(result.dtype, x.hull().lo * factor, x.hull().hi * factor)) return;
  const DType dtype = call.out_dtype(0);
  const auto of_range = [&](const Range& range) { return scale(dtype, range, point(factor)); };
  for (const Relation& relation : x.relations) {
    if (!speaks_of_rows(relation) && call.settings().flush_subnormals) continue;
    if (auto moved = scaled(relation, scale == divide ? 1 / factor : factor, dtype, of_range))
      result.relations.push_back(*std::move(moved));
  }
}

// One positive number per row keeps the order in it.
void carry_divided_rows(const RangeCall& call, const AbsTensor& x, const AbsTensor& divisor, AbsTensor& result) {
  if (constant_of(divisor) || x.rank() > 32) return;  // see carry_scaled
  const std::size_t more = x.rank() - divisor.rank();
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    bool constant = rows.of == Of::largest;
    for (std::size_t axis = more; axis < x.rank(); ++axis) {
      if ((rows.axes >> axis & 1U) != 0) constant &= divisor.sizes[axis - more] == 1;
    }
    if (!constant) continue;
    const Range in = divide(call.out_dtype(0), rows.in, divisor.hull());
    result.relations.push_back(RowBound{.axes = rows.axes, .of = rows.of, .in = in});
  }
}

// Lengths of rows, where shapes stay.
void carry_norms(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  if (!is_float(result.dtype)) return;
  if (keeps_shape(call, a)) add_scaled_norm(a, b, result);
  if (keeps_shape(call, b)) add_scaled_norm(b, a, result);
  if (keeps_shape(call, a) && keeps_shape(call, b)) add_product_norm(a, b, result);
}

void multiply_operands(RangeCall& call) {
  const AbsTensor& a = call.in(0);
  const AbsTensor& b = call.in(1);
  if (relatable(call) && same_elements(a, b)) return range_square(call, 0);
  range_binary(call, [](const Range& x, const Range& y, DType dtype) { return multiply(dtype, x, y); });
  if (!relatable(call)) return;
  // Of two shares the one that may vanish is the more telling one.
  const bool b_first = b.hull().lo < a.hull().lo;
  const AbsTensor& first = b_first ? b : a;
  const AbsTensor& second = b_first ? a : b;
  if (is_share(first, second)) call.out(0, share_of(call, first, second));
  else if (is_share(second, first)) call.out(0, share_of(call, second, first));
  use_inverse(call, a, b);
  use_inverse(call, b, a);
  carry_norms(call, a, b, call.outs()[0]);
  carry_inverse(call, a, b, call.outs()[0]);
  carry_inverse(call, b, a, call.outs()[0]);
  const std::optional<double> left = constant_of(a);
  const std::optional<double> right = constant_of(b);
  if (!left && !right) return carry_elements(call, multiply, call.outs()[0]);
  const AbsTensor& x = right ? a : b;
  const double factor = right ? *right : *left;
  AbsTensor result = keeps_shape(call, x) ? scaled(call, x, factor, call.outs()[0]) : call.outs()[0];
  carry_scaled(call, x, factor, multiply, result);
  carry_elements(call, multiply, result);
  call.out(0, std::move(result));
}

}  // namespace

namespace {

// A computed sigmoid passes 1 only for operands below 18: x * sigmoid(x) is not too large because of that.
void limit_gate(RangeCall& call, std::size_t gate, std::size_t x) {
  constexpr double kGateIsOne = 32;
  const Upstream behind = call.upstream(gate);
  const bool gates = behind.op() != nullptr && behind.op()->analysis.range == range_rising<sigmoid_of> &&
                     behind.input(0).is(call.upstream(x)) && is_float(call.out_dtype(0));
  if (!gates || !call.has_output(0)) return;
  const DType dtype = call.out_dtype(0);
  Range most_one = call.hull(gate);
  most_one.hi = std::min(most_one.hi, 1.0);
  const Range near = multiply(dtype, part_of(call.hull(x), -kGateIsOne, kGateIsOne), call.hull(gate));
  const Range limit = join(multiply(dtype, call.hull(x), most_one), near);
  for (Range& cell : call.outs()[0].cells) cell = meet(cell, limit);
}

}  // namespace

void range_multiply(RangeCall& call) {
  multiply_operands(call);
  limit_gate(call, 1, 0);
  limit_gate(call, 0, 1);
  merge_constants(call, multiply_weights_first);
}

namespace {

// a over what is at least |a|, or at least its square and a surplus.
void use_sizes(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const AggregateBound* size = related(b, Of::magnitude, a);
  if (size != nullptr && size->relative < 0.5) cap_magnitude(result, quotient_limit(*size, result.dtype, b.hull().lo));
  for (const AggregateBound& square : each<AggregateBound>(b.relations)) {
    const bool own = square.of == Of::square && square.bounds_below() && square.source.aligned && a.identity.valid() &&
                     square.source.value == a.identity;
    if (own) cap_magnitude(result, square_quotient_limit(square, result.dtype));
  }
}

// Nonnegative summands over their sum add up to one.
void add_quotient_sums(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const AggregateBound* sum = related(b, Of::sum, Order::equal, a);
  if (sum == nullptr) return;
  const double count = a.most_count(sum->source.axes);
  const double lost = sum->absolute / b.hull().lo + count * min_subnormal(result.dtype);
  const double slack = sum->relative + count * unit_roundoff(result.dtype) + lost;
  if (!(slack < 0.5)) return;
  result.relations.push_back(
      RowBound{.axes = sum->source.axes, .of = Of::sum, .in = {.lo = 1 - 2 * slack, .hi = 1 + 2 * slack}});
}

}  // namespace

// A summand over its sum, an element over its norm: at most one.
void range_divide(RangeCall& call) {
  const AbsTensor& a = call.in(0);
  const AbsTensor& b = call.in(1);
  const DType dtype = call.out_dtype(0);
  range_binary(call, [](const Range& x, const Range& y, DType d) { return divide(d, x, y); });
  if (!relatable(call) || !is_float(dtype)) return;
  AbsTensor result = call.outs()[0];
  const bool positive = b.hull().is_finite() && b.hull().lo > 0;
  const bool finite = a.hull().is_finite();
  const AggregateBound* cover = related(b, Of::largest, a);
  // Of a divisor that is only known not to be zero this is all that can be said.
  const bool above_zero = positive || (b.hull().is_finite() && b.hull().lo >= 0 && !b.hull().may_be_zero());
  const bool share = above_zero && finite && a.hull().lo >= 0 && result.hull().greatest() > 1;
  const bool covered = cover != nullptr && cover->is_exact();
  if (share && (covered || (!call.settings().flush_subnormals && call.not_below(1, 0)))) cap_above(result, 1);
  else if (share && cover != nullptr && positive) cap_magnitude(result, quotient_limit(*cover, dtype, b.hull().lo));
  if (positive && finite) use_sizes(a, b, result);
  add_inverses(b, a.hull().magnitude(), keeps_shape(call, b), result);
  if (keeps_shape(call, a)) add_quotient_norm(a, b, result);
  if (positive && finite && a.hull().lo >= 0 && keeps_shape(call, a)) add_quotient_sums(a, b, result);
  if (positive && keeps_shape(call, a)) carry_divided_rows(call, a, b, result);
  if (const std::optional<double> divisor = constant_of(b); divisor && *divisor != 0) {
    int exponent = 0;
    const bool exact = std::abs(std::frexp(*divisor, &exponent)) == 0.5;
    if (exact && keeps_shape(call, a)) result = scaled(call, a, 1 / *divisor, result);
    carry_scaled(call, a, *divisor, divide, result);
  }
  call.out(0, std::move(result));
}

namespace {

// The sign of the divisor (floored) or of the dividend (truncated); smaller than the divisor, not larger than the
// dividend.
Range modulo(const Range& a, const Range& b, DType dtype, bool truncated) {
  if (a.is_empty() || b.is_empty()) return {};
  Range result;
  const bool whole = !is_float(dtype);
  if (a.has_finite() && (b.has_finite() || b.pinf || b.ninf)) {
    const double divisor = b.pinf || b.ninf ? max_finite(dtype) : std::max(std::abs(b.lo), std::abs(b.hi));
    const double size = std::min(whole ? std::max(divisor - 1, 0.0) : divisor, truncated ? a.magnitude() : divisor);
    const Range& sign = truncated ? a : b;
    result.lo = sign.lo < 0 ? -size : 0;
    result.hi = sign.hi > 0 || sign.pinf ? size : 0;
    if (!truncated && a.lo >= 0 && b.lo > 0) result.hi = std::min(result.hi, a.hi);
    if (a.lo >= 0 && b.has_finite() && b.lo > a.hi) result = a.finite();
    result.integer = whole || (a.integer && b.integer);
  }
  result.nan |= a.nan || b.nan || a.pinf || a.ninf || (is_float(dtype) && b.may_be_zero());
  return result;
}

}  // namespace

void range_modulo(RangeCall& call) {
  const bool truncated = call.integer("fmod") != 0;
  range_binary(call, [&](const Range& a, const Range& b, DType dtype) { return modulo(a, b, dtype, truncated); });
}

namespace {

double raised(double base, double exponent) { return std::pow(base, exponent); }

struct PowerContext {
  DType dtype;
  int ulps;
};

// Positive (or zero) bases: monotone in either operand, so the corners decide.
Range positive_power(const PowerContext& context, double lo, double hi, const Range& y) {
  const std::array corners = {raised(lo, y.lo), raised(lo, y.hi), raised(hi, y.lo), raised(hi, y.hi)};
  if (std::ranges::any_of(corners, [](double x) { return std::isnan(x); })) return top(context.dtype);
  const auto [least, greatest] = std::ranges::minmax(corners);
  Range result = from_bounds(context.dtype, least, greatest, least == greatest && least == 1 ? 0 : context.ulps);
  if (result.has_finite()) result.lo = std::max(result.lo, 0.0);
  return result;
}

Range power(const PowerContext& context, const Range& x, const Range& y) {
  if (x.is_empty() || y.is_empty()) return {};
  Range result;
  const bool infinite = x.pinf || x.ninf || y.pinf || y.ninf;
  if (infinite) return top(context.dtype);
  if (!x.has_finite() || !y.has_finite()) {
    // x^0 and 1^y are 1 even for NaN.
    return y.may_be_zero() || x.contains(1) ? join({.nan = true}, point(1)) : Range{.nan = true};
  }
  const double smallest = min_subnormal(context.dtype);
  if (x.hi >= 0) {
    // Zero to a negative power is a hazard of its own (FN106), assumed away here.
    const double lo = y.lo < 0 ? std::max(x.lo, smallest) : std::max(x.lo, 0.0);
    if (lo <= x.hi) result = join(result, positive_power(context, lo, x.hi, y));
  }
  if (x.lo < 0) {
    const double near = std::min(x.hi, y.lo < 0 ? -smallest : 0.0);
    if (x.lo <= near) {
      Range size = positive_power(context, -near, -x.lo, y);
      const bool even = y.is_point() && y.integer && std::fmod(y.lo, 2) == 0;
      const bool odd = y.is_point() && y.integer && !even;
      Range flipped = size;
      flipped.lo = -size.hi;
      flipped.hi = -size.lo;
      std::swap(flipped.pinf, flipped.ninf);
      if (!odd) result = join(result, size);
      if (!even) result = join(result, flipped);
    }
  }
  result.integer = result.has_finite() && x.integer && y.integer && y.lo >= 0;
  result.nan |= x.nan || y.nan;
  return result;
}

// Where x^y is undefined or infinite for finite operands that are not large.
struct PowerDomain {
  bool possible = false;
  Range seen;
};

PowerDomain power_domain(const AbsTensor& x, const AbsTensor& y) {
  PowerDomain domain;
  const Range exponent = y.hull();
  for (const Range& base : x.cells) {
    const bool fractional = base.may_be_negative() && !(exponent.integer || !exponent.has_finite());
    const bool pole = base.may_be_zero() && exponent.may_be_negative();
    if (!fractional && !pole) continue;
    domain.possible = true;
    domain.seen = join(domain.seen, base);
  }
  if (!domain.possible) domain.seen = x.hull();
  return domain;
}

Range integer_power(DType dtype, const Range& x, const Range& y) {
  if (!x.is_finite() || !y.is_finite() || x.lo < 0 || y.lo < 0) return any_finite(dtype);
  // Powers of 0 fall, those of other numbers rise with the exponent.
  const auto [lo, hi] = std::minmax({raised(x.lo, y.lo), raised(x.lo, y.hi), raised(x.hi, y.lo), raised(x.hi, y.hi)});
  return from_bounds(dtype, std::floor(lo * (1 - 1e-12)), std::ceil(hi * (1 + 1e-12)));
}

}  // namespace

namespace {

// Pow is a library function: its squares may be a few units off.
void widen_square(RangeCall& call) {
  if (!call.has_output(0)) return;
  const DType dtype = call.out_dtype(0);
  for (Range& cell : call.outs()[0].cells) {
    if (!cell.has_finite() || cell.magnitude() == 0) continue;
    const Range wide = from_bounds(dtype, cell.lo, cell.hi, call.ulps());
    cell.lo = cell.lo == 0 ? 0 : std::max(wide.lo, 0.0);
    cell.hi = wide.hi;
    cell.integer = false;
  }
}

}  // namespace

void range_power(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const AbsTensor& y = call.in(1);
  const DType dtype = call.out_dtype(0);
  if (!is_float(dtype)) {
    return range_binary(call, [](const Range& a, const Range& b, DType d) { return integer_power(d, a, b); });
  }
  const PowerDomain domain = power_domain(x, y);
  call.site("FN106", 0, domain.seen, domain.possible);
  const std::optional<double> exponent = constant_of(y);
  if (exponent == 2.0 && call.out_type(0).ranked && x.ranked && keeps_shape(call, x)) {
    range_square(call, std::max(1, call.ulps()));
    return widen_square(call);
  }
  const PowerContext context{.dtype = dtype, .ulps = call.ulps()};
  range_binary(call, [&](const Range& a, const Range& b, DType) {
    Range base = a;
    if (exponent && *exponent != std::floor(*exponent) && base.lo < 0) base = meet(base, {.lo = 0, .hi = kInf});
    Range result = power(context, base, b);
    result.nan = a.nan || b.nan || a.pinf || a.ninf || b.pinf || b.ninf;
    return result;
  });
  if (exponent == -0.5 && call.has_output(0)) {
    AbsTensor root = uniform(dtype, {}, increasing(dtype, x.hull(), std::sqrt, 1));
    add_roots(x, root);
    add_inverses(root, 1, keeps_shape(call, x), call.outs()[0]);
  }
}

void range_shift(RangeCall& call) {
  const bool left = call.text("direction") == "LEFT";
  range_binary(call, [&](const Range& a, const Range&, DType dtype) {
    // Right shifts only shrink; left shifts may lose any bits.
    return left || !a.has_finite() ? any_finite(dtype) : from_bounds(dtype, 0, a.hi);
  });
}

void range_bits(RangeCall& call) {
  range_binary(call, [](const Range& a, const Range& b, DType dtype) {
    if (!a.has_finite() || !b.has_finite() || a.lo < 0 || b.lo < 0) return any_finite(dtype);
    // Bits of either, at most all bits below the next power of two of the larger.
    const double larger = std::max(a.hi, b.hi);
    const double bound = larger <= 0 ? 0 : std::exp2(std::floor(std::log2(larger)) + 1);
    return from_bounds(dtype, 0, std::min(bound, max_finite(dtype)));
  });
}

}  // namespace finity
