// Ranges through Cast. Rounding into a float is monotone, so ends stay ends; integers wrap.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "domain/row_bounds.h"
#include "ops/elementwise/cast.h"
#include "ops/shared/relation_rules.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

bool rounds_to_nearest(DType dtype) { return info(dtype).bits < 8; }

Range to_bool(const Range& x) {
  const bool truth = x.nan || x.pinf || x.ninf || (x.has_finite() && (x.lo < 0 || x.hi > 0));
  const bool zero = x.may_be_zero();
  if (!truth && !zero) return {};
  return {.lo = zero ? 0.0 : 1.0, .hi = truth ? 1.0 : 0.0, .integer = true};
}

// Powers of two; a negative number is NaN there.
Range to_e8m0(const Range& x, const CastOptions& options) {
  constexpr double kSmallest = 0x1p-127;
  constexpr double kLargest = 0x1p127;
  if (x.is_empty()) return x;
  const double least = std::clamp(x.least(), kSmallest, kLargest);
  const double greatest = std::clamp(x.greatest(), kSmallest, kLargest);
  Range range{.lo = std::exp2(std::floor(std::log2(least))), .hi = std::exp2(std::ceil(std::log2(greatest)))};
  const bool outside = x.least() < kSmallest || x.greatest() > kLargest;
  range.nan = x.nan || x.may_be_negative() || (outside && !options.saturate);
  return range;
}

// Out of range becomes the largest number, infinities too (NaN in older opsets for the kinds without negative zero).
Range to_saturated(const Range& x, DType to, const CastOptions& options) {
  const double limit = max_finite(to);
  const bool infinite = x.pinf || x.ninf;
  Range range;
  if (x.has_finite()) range = from_bounds(to, std::clamp(x.lo, -limit, limit), std::clamp(x.hi, -limit, limit));
  if (x.pinf) range = join(range, from_bounds(to, limit, limit));
  if (x.ninf) range = join(range, from_bounds(to, -limit, -limit));
  range.nan |= x.nan || (infinite && is_fnuz(to) && !options.saturate_infinity_fnuz);
  return range;
}

Range to_float(const Range& x, DType from, DType to) {
  Range range;
  if (x.has_finite()) range = from_bounds(to, x.lo, x.hi);
  const bool integers = x.integer || is_int(from) || from == DType::boolean;
  range.integer = integers && range.has_finite();
  // Rounding reaches zero only from numbers smaller than the format's.
  const double least_of_source = integers ? 1 : min_subnormal(from);
  range.nonzero = x.nonzero && range.lo <= 0 && range.hi >= 0 && least_of_source >= min_subnormal(to);
  const bool has_infinity = float_format(to).infinite;
  range.nan |= (x.nan || (!has_infinity && (x.pinf || x.ninf))) && float_format(to).nan;
  range.pinf |= x.pinf && has_infinity;
  range.ninf |= x.ninf && has_infinity;
  // A format without NaN saturates.
  if (!float_format(to).nan && (x.nan || x.pinf || x.ninf)) range = any_finite(to);
  return range;
}

Range to_integer(const Range& x, DType from, DType to) {
  if (!is_float(from)) return x.has_finite() ? from_bounds(to, x.lo, x.hi) : Range{};
  const Range fits = fits_integer(x, to);
  if (!fits.has_finite()) return x.is_empty() ? Range{} : any_finite(to);
  const auto whole = [&](double v) { return rounds_to_nearest(to) ? std::nearbyint(v) : std::trunc(v); };
  return from_bounds(to, whole(fits.lo), whole(fits.hi));
}

}  // namespace

Range fits_integer(const Range& x, DType to) {
  // The first numbers that do not fit. At 64 bits the doubles around are wider apart than 1, and the lowest one fits.
  const double margin = rounds_to_nearest(to) ? 0.5 : 1;
  const double above = max_finite(to) + margin;
  double below = lowest_finite(to) - margin;
  if (below == lowest_finite(to)) below = std::nextafter(below, -kInf);
  Range fits = x.finite();
  fits.hi = std::min(fits.hi, std::nextafter(above, 0));
  fits.lo = std::max(fits.lo, std::nextafter(below, 0));
  return fits.has_finite() ? fits : Range{};
}

Range cast_range(const Range& x, DType from, DType to, const CastOptions& options) {
  if (from == to) return x;
  const bool numbers = (is_float(from) || is_int(from) || from == DType::boolean) &&
                       (is_float(to) || is_int(to) || to == DType::boolean);
  if (!numbers) return top(to);
  if (to == DType::boolean) return to_bool(x);
  if (to == DType::float8e8m0) return to_e8m0(x, options);
  if (is_float8(to) && options.saturate) return to_saturated(x, to, options);
  return is_float(to) ? to_float(x, from, to) : to_integer(x, from, to);
}

// ---- the rule --------------------------------------------------------------

namespace {

// Every number of the cell is one of the target too.
bool is_exact(const Range& x, DType from, DType to) {
  if (is_float(from) && is_float(to)) {
    const FloatFormat& a = float_format(from);
    const FloatFormat& b = float_format(to);
    return b.mantissa_bits >= a.mantissa_bits && b.max_finite >= a.max_finite && info(to).bits >= 16 &&
           b.min_exponent - b.mantissa_bits <= a.min_exponent - a.mantissa_bits;
  }
  const bool whole = x.integer || !is_float(from);
  const double limit = is_float(to) ? std::ldexp(1.0, float_format(to).mantissa_bits + 1) : 0x1p53;
  return whole && x.lo >= std::max(-limit, lowest_finite(to)) && x.hi <= std::min(limit, max_finite(to));
}

bool is_number(DType dtype) { return is_float(dtype) || is_int(dtype); }

Relations cast_relations(const AbsTensor& x, DType to, const std::function<Range(const Range&)>& f) {
  if (!(is_number(x.dtype) || x.dtype == DType::boolean) || !is_number(to) || to == DType::float8e8m0) return {};
  // Integers that wrap have no order.
  const Range hull = x.hull();
  const bool wraps = is_int(to) && !(hull.is_finite() && hull.lo >= lowest_finite(to) && hull.hi <= max_finite(to));
  if (wraps) return {};
  Relations relations = mapped(x.relations, Monotone::increasing, f);
  const auto exact = [&](const Range& cell) { return is_exact(cell, x.dtype, to); };
  if (!std::ranges::all_of(x.cells, exact)) return relations;
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (rows.of == Of::sum) relations.push_back(rows);
  }
  return relations;
}

std::vector<Form> cast_forms(RangeCall& call, const AbsTensor& x, const AbsTensor& result) {
  const DType to = result.dtype;
  if (!call.settings().affine || !is_number(x.dtype) || !is_number(to) || info(to).bits < 16) return {};
  return mapped_forms(x, [&](const Form& form, std::size_t cell) {
    if (is_exact(x.cells[cell], x.dtype, to)) return form;
    return is_float(to) ? rounded(form, to, call.symbols(), result.cells[cell]) : Form{};
  });
}

void check_integer_target(RangeCall& call, const AbsTensor& x, DType to) {
  bool possible = false;
  bool certain = true;
  for (const Range& cell : x.cells) {
    const Range fits = fits_integer(cell, to);
    const bool all_fit = cell.is_empty() || (cell.is_finite() && fits.lo == cell.lo && fits.hi == cell.hi);
    possible |= !all_fit;
    certain &= !cell.is_empty() && !fits.has_finite();
  }
  call.site("FN115", 0, x.hull(), possible, possible && certain);
}

}  // namespace

void range_cast(RangeCall& call, DType to, const CastOptions& options) {
  const AbsTensor& x = call.in(0);
  const DType from = x.dtype;
  if (from == to) return call.same(0, 0);
  if (is_float(from) && is_int(to)) check_integer_target(call, x, to);
  const auto of_range = [&](const Range& cell) { return cast_range(cell, from, to, options); };
  AbsTensor result = map_cells(x, to, of_range);
  result.forms = cast_forms(call, x, result);
  const auto exact = [&](const Range& cell) { return is_exact(cell, from, to); };
  if (is_float(from) && is_float(to) && std::ranges::all_of(x.cells, exact)) {
    result.relations = x.relations;  // no element changes
    call.same(0, 0);
    if (!call.has_output(0)) return;
    result.identity = call.outs()[0].identity;
    call.outs()[0] = std::move(result);
    return;
  }
  result.relations = cast_relations(x, to, of_range);
  if (to == DType::boolean) carry_row_elements(x, result, of_range);
  call.out(0, std::move(result));
}

}  // namespace finity
