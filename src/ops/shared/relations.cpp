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
  result.facts.clear();
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
  result.facts.clear();
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

const Fact* related(const AbsTensor& x, Fact::Kind kind, const AbsTensor& source) {
  if (!source.identity.valid()) return nullptr;
  const auto fits = [&](const Fact& fact) {
    return fact.kind == kind && fact.source == source.identity && fact.aligned;
  };
  const auto found = std::ranges::find_if(x.facts, fits);
  return found == x.facts.end() ? nullptr : &*found;
}

double lost_squares(const Fact& fact, DType dtype) {
  return (fact.slack / unit_roundoff(dtype) + 2) * min_subnormal(dtype);
}

// |x| / (x^2 (1 - s) + c) is largest where both terms are equal.
double square_quotient_limit(const Fact& squares, DType dtype) {
  const double unit = unit_roundoff(dtype);
  const double slack = squares.slack + 8 * unit;
  if (!squares.range.is_point() || !(slack < 0.5)) return kInf;
  const double surplus = (squares.range.lo - lost_squares(squares, dtype)) * (1 - 8 * unit);
  if (!(surplus > 0)) return kInf;
  return (1 + 8 * unit) / (2 * std::sqrt((1 - slack) * surplus)) + min_subnormal(dtype);
}

namespace {

// sqrt(S) where S >= N^2 (1 - s) - L: at least N sqrt(1 - s) - sqrt(L); a surplus that covers L leaves nothing to lose.
// Of a mean, N / sqrt(n).
Fact root_fact(const Fact& squares, Fact::Kind kind, DType dtype, double slack, double lost) {
  const double unit = unit_roundoff(dtype);
  const bool covered = squares.range.is_point() && squares.range.lo >= lost;
  Fact root = squares;
  root.kind = kind;
  root.slack = slack + 8 * unit;
  root.lost = covered ? 0 : std::sqrt(lost) * (1 + 8 * unit);
  root.range = {};
  if (squares.kind == Fact::Kind::mean_square_at_least) {
    root.range = point((1 - 1e-12) / std::sqrt(static_cast<double>(std::max(squares.total, 1))));
  }
  return root;
}

}  // namespace

// S is at least each square up to its own rounding, as adding what is not negative only makes it larger, and at least
// the sum of all up to the rounding of the sum.
void root_facts(const AbsTensor& x, AbsTensor& root) {
  const DType dtype = x.dtype;
  if (!(unit_roundoff(dtype) > 0)) return;
  Facts norms;
  for (const Fact& fact : x.facts) {
    const bool mean = fact.kind == Fact::Kind::mean_square_at_least;
    if (!mean && fact.kind != Fact::Kind::square_sum_of) continue;
    const double one = 4 * min_subnormal(dtype);
    const double each = !mean && fact.lost > 0 ? std::min(fact.slack, fact.lost) : fact.slack;
    const Fact element = root_fact(fact, Fact::Kind::at_least_abs, dtype, each, one);
    Fact norm = root_fact(fact, Fact::Kind::norm_at_least, dtype, fact.slack, mean ? one : lost_squares(fact, dtype));
    norm.total = 0;
    if (element.slack < 0.5) root.facts.push_back(element);
    if (norm.slack < 0.5) norms.push_back(norm);
  }
  root.facts.insert(root.facts.end(), norms.begin(), norms.end());
}

double square_error(const RangeCall& call, DType dtype) { return (8 + 2 * call.ulps()) * unit_roundoff(dtype); }

double quotient_limit(const Fact& norm, DType dtype, double least) {
  const double scale = norm.range.is_point() ? norm.range.lo : 1;
  const double limit = (1 + norm.lost / least) / (scale * (1 - norm.slack));
  return limit * (1 + 4 * unit_roundoff(dtype)) + min_subnormal(dtype);
}

// Library functions may be a few units off, and a small inverse by some of the smallest numbers.
double inverse_limit(const Fact& norm, DType dtype, const Range& divisor, double numerator) {
  const double quotient = quotient_limit(norm, dtype, divisor.lo);
  const double underflow = 16 * min_subnormal(dtype) * quotient * divisor.hi;
  return (numerator * quotient + underflow) * (1 + 16 * unit_roundoff(dtype));
}

void inverse_facts(const AbsTensor& x, double numerator, bool same_shape, AbsTensor& inverse) {
  const Range hull = x.hull();
  if (!hull.is_finite() || !(hull.lo > 0)) return;
  for (const Fact& fact : x.facts) {
    const bool norm = fact.kind == Fact::Kind::norm_at_least;
    if (!norm && fact.kind != Fact::Kind::at_least_abs) continue;
    if (!(fact.slack < 0.5) || (!fact.aligned && !same_shape)) continue;
    Fact bounded = fact;
    bounded.kind = norm ? Fact::Kind::inverse_norm : Fact::Kind::at_most_inverse;
    bounded.slack = bounded.lost = 0;
    const double limit = inverse_limit(fact, x.dtype, hull, numerator);
    bounded.range = {.lo = 0, .hi = limit};
    if (std::isfinite(limit)) inverse.facts.push_back(bounded);
  }
}

}  // namespace finity
