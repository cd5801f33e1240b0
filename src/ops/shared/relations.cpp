#include "ops/shared/relations.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/range_rules.h"
#include "tensor/float_formats.h"

namespace finity {

Range refined_by(const Range& cell, const Form& form, const Symbols& symbols, DType dtype, bool operands_finite) {
  if (!form.valid || !cell.has_finite()) return cell;
  const Bounds bounds = evaluate(form, symbols);
  // Integers wrap where the real result lies outside their type; 2^63 as a double may stand for what does.
  const double most = std::min(max_finite(dtype), 0x1p63 - 1024);
  if (!is_float(dtype) && !(bounds.lo >= lowest_finite(dtype) && bounds.hi <= most)) return cell;
  Range result = cell;
  // Values of the dtype inside the real bounds; rounding the bounds to nearest never passes one.
  const auto nearest = [&](double x) { return is_float(dtype) ? round_to(dtype, x) : x; };
  if (bounds.lo > cell.lo) result.lo = std::max(cell.lo, is_float(dtype) ? nearest(bounds.lo) : std::ceil(bounds.lo));
  if (bounds.hi < cell.hi) result.hi = std::min(cell.hi, is_float(dtype) ? nearest(bounds.hi) : std::floor(bounds.hi));
  if (!result.has_finite()) return cell;  // only rounding of the bounds themselves can do this
  if (operands_finite && bounds.hi <= max_finite(dtype)) result.pinf = false;
  if (operands_finite && bounds.lo >= lowest_finite(dtype)) result.ninf = false;
  result.nonzero = result.nonzero && result.lo <= 0 && result.hi >= 0;
  return result;
}

AbsTensor affine_sum(RangeCall& call, const AbsTensor& a, const AbsTensor& b, bool minus) {
  const DType dtype = call.out_dtype(0);
  const Dims sizes = sizes_of(call.out_type(0));
  auto [left, right] = aligned(a, b, sizes, call.symbols(), call.max_cells());
  AbsTensor result = left;
  result.dtype = dtype;
  result.relations.clear();
  for (std::size_t i = 0; i < left.cells.size(); ++i) {
    const Range& x = left.cells[i];
    const Range& y = right.cells[i];
    result.cells[i] = minus ? subtract(dtype, x, y) : add(dtype, x, y);
  }
  const bool forms =
      call.settings().affine && left.forms.size() == left.cells.size() && right.forms.size() == right.cells.size();
  if (!forms) {
    result.forms.clear();
    result.first_symbol = -1;
  }
  for (std::size_t i = 0; forms && i < left.cells.size(); ++i) {
    const Form exact = minus ? subtract(left.forms[i], right.forms[i]) : add(left.forms[i], right.forms[i]);
    const bool finite = left.cells[i].is_finite() && right.cells[i].is_finite();
    // Rounding is monotone: the rounded sum lies between the rounded bounds of the real one.
    result.cells[i] = refined_by(result.cells[i], exact, call.symbols(), dtype, finite);
    result.forms[i] = rounded(exact, dtype, call.symbols(), result.cells[i]);
    // Integers that may wrap follow no form.
    if (!is_float(dtype) && result.cells[i] == any_finite(dtype)) result.forms[i] = {};
  }
  if (!result.ranked) result.first_symbol = -1;
  simplify(result, call.max_cells());
  return result;
}

AbsTensor scaled(RangeCall& call, const AbsTensor& x, double factor, const AbsTensor& plain) {
  AbsTensor result = plain;
  if (!call.settings().affine || plain.cells.size() != x.cells.size() || plain.sizes != x.sizes) return result;
  const DType dtype = call.out_dtype(0);
  if (!is_float(dtype)) return result;
  result.forms.resize(x.cells.size());
  for (std::size_t i = 0; i < x.cells.size(); ++i) {
    const Form own = !x.forms.empty()      ? x.forms[i]
                     : x.first_symbol >= 0 ? symbol_form(x.first_symbol + static_cast<Sym>(i))
                                           : Form{};
    result.forms[i] = rounded(scale(own, factor), dtype, call.symbols(), result.cells[i]);
    result.cells[i] = refined_by(result.cells[i], result.forms[i], call.symbols(), dtype, x.cells[i].is_finite());
  }
  return result;
}

bool is_share(const AbsTensor& share, const AbsTensor& x) {
  const Range part = share.hull();
  const Range whole = x.hull();
  const bool one_sign = whole.lo > 0 || whole.hi < 0;
  // Computed gates pass 1 by a unit, and then what is left of 1 is below zero by as much.
  const double beyond = is_float(x.dtype) ? 8 * unit_roundoff(x.dtype) : 0;
  return is_float(x.dtype) && part.is_finite() && !part.is_point() && part.lo >= -beyond && part.hi <= 1 + beyond &&
         whole.is_finite() && one_sign;
}

namespace {

// A little nearer to zero, with few digits: sums of factors must stay exact.
double shortened(double x, DType dtype) {
  constexpr int kDigits = 20;
  int exponent = 0;
  const double digits = std::frexp(x * (1 - 4 * unit_roundoff(dtype)), &exponent);
  return std::ldexp(std::trunc(std::ldexp(digits, kDigits)), exponent - kDigits);
}

// Rounding is monotone: fl(t x) is at least fl(t c), which is at least t c less a roundoff, and what underflows.
Form share_form(const Form& share, const Range& part, const Range& x, DType dtype, Symbols& symbols) {
  const double factor = shortened(x.lo > 0 ? x.lo : x.hi, dtype);
  const double tiny = min_subnormal(dtype);
  const double far = x.lo > 0 ? x.hi : x.lo;
  const double spread = (std::abs(far - factor) + 4 * unit_roundoff(dtype) * std::abs(far)) * (1 + 1e-15);
  const double rest = part.hi * spread, below = std::max(-part.lo, 0.0) * spread;
  if (!share.valid || factor == 0 || !std::isfinite(rest)) return {};
  const Range beyond =
      x.lo > 0 ? Range{.lo = -tiny - below, .hi = rest + tiny} : Range{.lo = -rest - tiny, .hi = tiny + below};
  return add(scale(share, factor), symbol_form(symbols.fresh(beyond)));
}

}  // namespace

AbsTensor share_of(RangeCall& call, const AbsTensor& share, const AbsTensor& x) {
  const DType dtype = call.out_dtype(0);
  auto [part, whole] = aligned(share, x, sizes_of(call.out_type(0)), call.symbols(), call.max_cells());
  AbsTensor result = part;
  result.dtype = dtype;
  result.relations.clear();
  const bool forms = call.settings().affine && part.forms.size() == part.cells.size() && part.ranked;
  result.forms.assign(forms ? part.cells.size() : 0, {});
  result.first_symbol = -1;
  for (std::size_t i = 0; i < part.cells.size(); ++i) {
    result.cells[i] = multiply(dtype, part.cells[i], whole.cells[i]);
    if (forms) result.forms[i] = share_form(part.forms[i], part.cells[i], whole.cells[i], dtype, call.symbols());
  }
  simplify(result, call.max_cells());
  return result;
}

void cap_above(AbsTensor& x, double limit) {
  for (Range& cell : x.cells) {
    if (cell.hi > limit) {
      cell.hi = limit;
      if (!cell.has_finite()) cell.lo = cell.hi;  // cannot happen for sound operands; stay non-empty
    }
    if (limit < kInf) cell.pinf = false;
  }
}

void cap_below(AbsTensor& x, double limit) {
  for (Range& cell : x.cells) {
    if (cell.lo < limit) {
      cell.lo = limit;
      if (!cell.has_finite()) cell.hi = cell.lo;
    }
    if (limit > -kInf) cell.ninf = false;
  }
}

void cap_magnitude(AbsTensor& x, double limit) {
  const Range most = from_bounds(x.dtype, 0, limit);
  if (!most.is_finite()) return;
  cap_above(x, most.hi);
  cap_below(x, -most.hi);
}

bool same_elements(const AbsTensor& a, const AbsTensor& b) {
  if (!a.ranked || a.sizes != b.sizes) return false;
  if (a.identity.valid() && a.identity == b.identity) return true;
  // Equal forms without error are equal numbers: the same element moved the same way.
  if (a.forms.empty() || a.cuts != b.cuts || a.forms.size() != b.forms.size()) return false;
  const auto equal = [](const Form& x, const Form& y) {
    return x.valid && y.valid && x.error == 0 && y.error == 0 && x.constant == y.constant && x.terms == y.terms;
  };
  return std::ranges::equal(a.forms, b.forms, equal);
}

namespace {

template <class Wanted>
const AggregateBound* aligned_bound(const AbsTensor& x, Of of, const AbsTensor& source, const Wanted& wanted) {
  if (!source.identity.valid()) return nullptr;
  for (const AggregateBound& bound : each<AggregateBound>(x.relations)) {
    const bool fits = bound.of == of && bound.source.value == source.identity && bound.source.aligned;
    if (fits && wanted(bound)) return &bound;
  }
  return nullptr;
}

}  // namespace

const AggregateBound* related(const AbsTensor& x, Of of, const AbsTensor& source) {
  return aligned_bound(x, of, source, [](const AggregateBound& bound) { return bound.bounds_below(); });
}

const AggregateBound* related(const AbsTensor& x, Of of, Order order, const AbsTensor& source) {
  return aligned_bound(x, of, source, [&](const AggregateBound& bound) { return bound.order == order; });
}

// |x| / (f x^2 (1 - s) + c) is largest where both terms are equal.
double square_quotient_limit(const AggregateBound& square, DType dtype) {
  const double unit = unit_roundoff(dtype);
  const double slack = square.relative + 8 * unit;
  const double surplus = -square.absolute * (1 - 8 * unit);
  if (!(slack < 0.5) || !(surplus > 0)) return kInf;
  return (1 + 8 * unit) / (2 * std::sqrt(square.factor * (1 - slack) * surplus)) + min_subnormal(dtype);
}

// sqrt(S) where S >= f A (1 - s) - L: at least sqrt(f A) (1 - s) - sqrt(L); a surplus leaves nothing to lose.
void add_roots(const AbsTensor& x, AbsTensor& root) {
  const double unit = unit_roundoff(x.dtype);
  if (!(unit > 0)) return;
  for (const AggregateBound& squares : each<AggregateBound>(x.relations)) {
    const bool sum = squares.of == Of::square_sum;
    if (!squares.bounds_below() || (!sum && squares.of != Of::square)) continue;
    AggregateBound bound = squares;
    bound.of = sum ? Of::norm : Of::magnitude;
    bound.order = Order::at_least;
    bound.factor = squares.factor == 1 ? 1 : std::sqrt(squares.factor) * (1 - 1e-12);
    bound.relative = squares.relative + 8 * unit;
    bound.absolute = squares.absolute > 0 ? std::sqrt(squares.absolute) * (1 + 8 * unit) : 0;
    if (bound.relative < 0.5) root.relations.push_back(bound);
  }
}

double square_error(DType dtype, const AggregateBound& square) { return 8 * unit_roundoff(dtype) + square.relative; }

double quotient_limit(const AggregateBound& bound, DType dtype, double least) {
  const double lost = std::max(bound.absolute, 0.0);
  const double limit = (1 + lost / least) / (bound.factor * (1 - bound.relative));
  return limit * (1 + 4 * unit_roundoff(dtype)) + min_subnormal(dtype);
}

// Library functions may be a few units off, and a small inverse by some of the smallest numbers.
double inverse_limit(const AggregateBound& divisor_bound, DType dtype, const Range& divisor, double numerator) {
  const double quotient = quotient_limit(divisor_bound, dtype, divisor.lo);
  const double underflow = 16 * min_subnormal(dtype) * quotient * divisor.hi;
  return (numerator * quotient + underflow) * (1 + 16 * unit_roundoff(dtype));
}

void add_inverses(const AbsTensor& x, double numerator, bool same_shape, AbsTensor& inverse) {
  const Range hull = x.hull();
  if (!hull.is_finite() || !(hull.lo > 0)) return;
  for (const AggregateBound& bound : each<AggregateBound>(x.relations)) {
    const bool length = bound.of == Of::norm || bound.of == Of::magnitude;
    if (!length || !bound.bounds_below() || !(bound.relative < 0.5)) continue;
    if (!bound.source.aligned && !same_shape) continue;
    const double limit = inverse_limit(bound, x.dtype, hull, numerator);
    if (std::isfinite(limit)) inverse.relations.push_back(ProductBound{bound.source, bound.of, limit});
  }
}

}  // namespace finity
