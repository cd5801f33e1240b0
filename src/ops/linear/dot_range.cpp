#include "ops/linear/dot_range.h"

#include <algorithm>
#include <cmath>

namespace finity {

namespace {

// What the arithmetic of the bounds themselves, in double, may have lost.
constexpr double kOwnRoundoff = 0x1p-51;

bool infinite(const Range& x) { return x.pinf || x.ninf; }

// Nothing is known any more.
void give_up(DotSum& sum) {
  sum.nan = sum.pinf = sum.ninf = true;
  sum.lo = sum.below = -kInf;
  sum.hi = sum.above = kInf;
  sum.magnitude = kInf;
}

// Infinities of x times factors of these signs.
void add_infinities(DotSum& sum, const Range& x, bool positive, bool negative, bool zero) {
  if (!infinite(x)) return;
  sum.pinf |= (x.pinf && positive) || (x.ninf && negative);
  sum.ninf |= (x.pinf && negative) || (x.ninf && positive);
  sum.nan |= zero || (sum.pinf && sum.ninf);
}

}  // namespace

void add_weighted(DotSum& sum, const Range& x, double positive, double negative, double count, bool has_zeros) {
  if (count == 0) return;
  if (x.is_empty()) {
    sum.empty = true;
    return;
  }
  if (!std::isfinite(positive) || !std::isfinite(negative)) return give_up(sum);
  sum.nan |= x.nan;
  add_infinities(sum, x, positive > 0, negative < 0, has_zeros);
  if (!x.has_finite()) return;
  sum.lo += positive * x.lo + negative * x.hi;
  sum.hi += positive * x.hi + negative * x.lo;
  const double least = std::min(x.lo, 0.0), most = std::max(x.hi, 0.0);
  sum.below += positive * least + negative * most;
  sum.above += positive * most + negative * least;
  sum.magnitude += (positive - negative) * x.magnitude();
  sum.factors += (positive - negative) + count * x.magnitude();
}

void add_products(DotSum& sum, const Range& a, const Range& b, double least, double most) {
  if (most == 0) return;
  if (a.is_empty() || b.is_empty()) {
    sum.empty |= least > 0;
    return;
  }
  sum.nan |= a.nan || b.nan;
  add_infinities(sum, a, b.may_be_positive(), b.may_be_negative(), b.may_be_zero());
  add_infinities(sum, b, a.may_be_positive(), a.may_be_negative(), a.may_be_zero());
  if (!a.has_finite() || !b.has_finite()) return;
  const auto [lo, hi] = std::minmax({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
  sum.lo += (lo < 0 ? most : least) * lo;
  sum.hi += (hi > 0 ? most : least) * hi;
  sum.below += most * std::min(lo, 0.0);
  sum.above += most * std::max(hi, 0.0);
  sum.magnitude += most * a.magnitude() * b.magnitude();
  sum.factors += most * (a.magnitude() + b.magnitude());
}

void add_term(DotSum& sum, const Range& x) { add_products(sum, x, point(1), 1, 1); }

void scale(DotSum& sum, double factor) {
  if (factor == 0 && (sum.pinf || sum.ninf)) sum.nan = true;
  if (factor < 0) {
    std::swap(sum.lo, sum.hi);
    std::swap(sum.below, sum.above);
    std::swap(sum.pinf, sum.ninf);
  }
  for (double* end : {&sum.lo, &sum.hi, &sum.below, &sum.above}) *end *= factor;
  sum.magnitude *= std::abs(factor);
  sum.factors *= std::max(1.0, std::abs(factor));
}

void scale_total(DotSum& sum, double factor) {
  const double below = sum.below, above = sum.above;
  scale(sum, factor);
  const bool turned = factor < 0;
  sum.below = std::min(sum.below, turned ? -above : below);
  sum.above = std::max(sum.above, turned ? -below : above);
}

DotSum join(const DotSum& a, const DotSum& b) {
  if (a.empty) return b;
  if (b.empty) return a;
  return {.lo = std::min(a.lo, b.lo),
          .hi = std::max(a.hi, b.hi),
          .below = std::min(a.below, b.below),
          .above = std::max(a.above, b.above),
          .magnitude = std::max(a.magnitude, b.magnitude),
          .factors = std::max(a.factors, b.factors),
          .nan = a.nan || b.nan,
          .pinf = a.pinf || b.pinf,
          .ninf = a.ninf || b.ninf,
          .empty = false};
}

DotSum meet(const DotSum& a, const DotSum& b) {
  DotSum result = a;
  result.lo = std::max(a.lo, b.lo);
  result.hi = std::min(a.hi, b.hi);
  result.below = std::max(a.below, b.below);
  result.above = std::min(a.above, b.above);
  result.magnitude = std::min(a.magnitude, b.magnitude);
  return result;
}

DotSum weighted_mean(const Range& total, const Range& values) {
  DotSum sum;
  const double lo = values.lo, hi = values.hi;
  sum.lo = std::min(total.lo * lo, total.hi * lo);
  sum.hi = std::max(total.lo * hi, total.hi * hi);
  sum.below = total.hi * std::min(lo, 0.0);
  sum.above = total.hi * std::max(hi, 0.0);
  sum.magnitude = total.hi * values.magnitude();
  return sum;
}

double dot_error(DType accumulator, double terms) {
  const double u = unit_roundoff(accumulator);
  const double linear = terms * u;
  if (linear <= 1) return linear;
  const double levels = std::ceil(std::log2(terms) / -std::log2(u));
  return std::min(linear, std::exp2(levels) * (1 + u) - 1);
}

namespace {

// Absolute errors of products that underflow, or are flushed.
double underflow_error(const RangeCall& call, DType accumulator, const DotSum& sum, double terms) {
  if (sum.magnitude == 0 && !call.settings().flush_subnormals) return 0;
  if (!call.settings().flush_subnormals) return terms * min_subnormal(accumulator);
  const double smallest_normal = std::ldexp(1.0, float_format(accumulator).min_exponent);
  return (sum.factors + 2 * terms) * smallest_normal;
}

// With the error of these bounds' own arithmetic. One product is rounded correctly, which rounding its bounds covers.
double relative_error(DType accumulator, double terms) {
  if (terms <= 1) return 16 * kOwnRoundoff;
  return dot_error(accumulator, terms) + (terms + 16) * kOwnRoundoff;
}

}  // namespace

Range partial_sums(const RangeCall& call, DType accumulator, const DotSum& sum, double terms) {
  const double relative = relative_error(accumulator, terms);
  const double underflow = underflow_error(call, accumulator, sum, terms);
  const auto error = [&](double part) {
    return (relative <= 1 ? relative * std::abs(part) : relative * sum.magnitude) + underflow;
  };
  return from_bounds(accumulator, sum.below - error(sum.below), sum.above + error(sum.above));
}

namespace {

Range rounded_in(const RangeCall& call, DType dtype, DType accumulator, const DotSum& sum, double terms) {
  const double relative = relative_error(accumulator, terms);
  const double underflow = underflow_error(call, accumulator, sum, terms);
  const double error = relative * sum.magnitude + underflow;
  // Terms of one sign never add up to the other sign.
  const double lo = sum.below == 0 ? std::max(sum.lo - error, 0.0) : sum.lo - error;
  const double hi = sum.above == 0 ? std::min(sum.hi + error, 0.0) : sum.hi + error;
  Range parts = partial_sums(call, accumulator, sum, terms);
  Range result = from_bounds(accumulator, lo, hi);
  parts.nan |= result.nan || (parts.pinf && parts.ninf);
  if (dtype != accumulator && result.has_finite()) {
    const Range narrow = from_bounds(dtype, result.lo, result.hi);
    result.lo = narrow.lo;
    result.hi = narrow.hi;
    result.pinf |= narrow.pinf;
    result.ninf |= narrow.ninf;
  }
  result.nan |= parts.nan;
  result.pinf |= parts.pinf;
  result.ninf |= parts.ninf;
  return result;
}

// Partial sums wrap and unwrap: only the total counts.
Range rounded_integer(DType dtype, const DotSum& sum, double terms) {
  const double slack = sum.magnitude < 0x1p53 ? 0 : sum.magnitude * (terms + 16) * kOwnRoundoff;
  return from_bounds(dtype, sum.lo - slack, sum.hi + slack);
}

}  // namespace

Range rounded(const RangeCall& call, DType dtype, const DotSum& sum, double terms) {
  if (sum.empty) return {};
  if (!is_float(dtype)) return rounded_integer(dtype, sum, terms);
  Range result;
  for (const DType accumulator : call.accumulators(dtype)) {
    result = join(result, rounded_in(call, dtype, accumulator, sum, terms));
  }
  result.nan |= sum.nan;
  result.pinf |= sum.pinf;
  result.ninf |= sum.ninf;
  return result;
}

Range outward(DType dtype, Range range, int ulps) {
  if (!range.has_finite() || !is_float(dtype)) return range;
  for (int i = 0; i < ulps; ++i) {
    range.lo = std::max(next_down(dtype, range.lo), lowest_finite(dtype));
    range.hi = std::min(next_up(dtype, range.hi), max_finite(dtype));
  }
  range.integer = range.nonzero = false;
  return range;
}

// ---- grids -------------------------------------------------------------------

std::size_t SumGrid::cell_count() const {
  std::size_t count = 1;
  for (const Cuts& axis : cuts) count *= axis.size() + 1;
  return count;
}

std::int64_t SumGrid::block_start(std::size_t axis, std::size_t block) const {
  return block == 0 ? 0 : cuts[axis][block - 1];
}

std::int64_t SumGrid::block_end(std::size_t axis, std::size_t block) const {
  if (block < cuts[axis].size()) return cuts[axis][block];
  return sizes[axis] >= 0 ? sizes[axis] : std::numeric_limits<std::int64_t>::max();
}

std::vector<std::size_t> place_of(const SumGrid& grid, std::size_t cell) {
  std::vector<std::size_t> place(grid.cuts.size());
  for (std::size_t axis = grid.cuts.size(); axis-- > 0;) {
    const std::size_t blocks = grid.cuts[axis].size() + 1;
    place[axis] = cell % blocks;
    cell /= blocks;
  }
  return place;
}

AbsTensor rounded(const RangeCall& call, const Type& type, const SumGrid& grid) {
  std::vector<Range> cells;
  cells.reserve(grid.cells.size());
  for (const DotSum& sum : grid.cells) cells.push_back(rounded(call, type.dtype, sum, grid.terms));
  if (!grid.ranked || !type.ranked || type.shape.size() != grid.sizes.size() || cells.size() == 1) {
    Range hull;
    for (const Range& cell : cells) hull = join(hull, cell);
    return uniform(type, hull);
  }
  AbsTensor result;
  result.dtype = type.dtype;
  result.ranked = true;
  result.sizes = grid.sizes;
  for (std::size_t i = 0; i < result.sizes.size(); ++i) {
    if (result.sizes[i] < 0 && type.shape[i].known()) result.sizes[i] = type.shape[i].size;
  }
  result.cuts = grid.cuts;
  result.cells = std::move(cells);
  simplify(result, call.max_cells());
  return result;
}

Cuts even_cuts(std::int64_t size, std::size_t blocks) {
  Cuts cuts;
  const auto pieces = static_cast<std::int64_t>(std::min<std::size_t>(blocks, 1U << 20));
  for (std::int64_t i = 1; i < std::min(pieces, size); ++i) {
    // Positions of size * i / pieces without overflow.
    const std::int64_t count = std::min(pieces, size);
    cuts.push_back(size / count * i + size % count * i / count);
  }
  return cuts;
}

Range hull_within(const AbsTensor& x, std::span<const Extent> extents) {
  if (!x.cut()) return x.hull();
  Range hull;
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) {
    const std::vector<std::size_t> place = cell_place(x, cell);
    bool inside = true;
    for (std::size_t axis = 0; axis < std::min(extents.size(), x.rank()) && inside; ++axis) {
      if (x.blocks(axis) == 1) continue;
      const std::int64_t start = x.block_start(axis, place[axis]);
      inside = start < extents[axis].end && start + x.block_length(axis, place[axis]) > extents[axis].begin;
    }
    if (inside) hull = join(hull, x.cells[cell]);
  }
  return hull;
}

}  // namespace finity
