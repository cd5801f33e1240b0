// Bounds of sums of products, the part that all linear ops share. A DotSum bounds
// the sum in real numbers; rounded() adds what floating point can do to it, for any
// order of summation in any format the partial sums may be kept in:
//
//   |computed - exact| <= n u * sum |terms|     any order, no limit on n (Jeannerod and Rump 2013)
//   <= (2^L (1 + u) - 1) * sum |terms|          L nested levels of sequential sums of 1/u terms: an
//                                               addition is never wrong by more than its smaller operand
//
// Partial sums may overflow although the total is small: `below` and `above` bound
// what any part of the terms adds up to.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "ops/table/range_call.h"

namespace finity {

struct DotSum {
  double lo = 0, hi = 0;        // of the sum of all terms
  double below = 0, above = 0;  // of the sum of any of them
  double magnitude = 0;         // sum of the largest |term|
  double factors = 0;           // sum of the largest |factor| of the terms: what flushed operands can lose
  bool nan = false, pinf = false, ninf = false;
  bool empty = false;  // a term that has no value at all
};

// Sums over more terms than this, where even their number is not known, are not reckoned with in rounding errors.
inline constexpr double kLongestUnknownSum = 1 << 20;

// Adds x * w for weights whose positive ones add up to `positive`, the negative ones to `negative`; `count` of them.
void add_weighted(DotSum& sum, const Range& x, double positive, double negative, double count, bool has_zeros);
// Adds at least `least`, at most `most` products of elements of a and b.
void add_products(DotSum& sum, const Range& a, const Range& b, double least, double most);
void add_term(DotSum& sum, const Range& x);
// Every term times a number.
void scale(DotSum& sum, double factor);
// The finished sum times a number: parts of it may overflow before it gets small.
void scale_total(DotSum& sum, double factor);
// Either of them.
DotSum join(const DotSum& a, const DotSum& b);
// Both hold: the finite bounds of each.
DotSum meet(const DotSum& a, const DotSum& b);
// Of numbers >= 0 that add up to a value of `total`, times elements of `values`.
DotSum weighted_mean(const Range& total, const Range& values);

// Relative to the sum of magnitudes.
double dot_error(DType accumulator, double terms);
// What partial sums in that format can be; infinities as flags.
Range partial_sums(const RangeCall& call, DType accumulator, const DotSum& sum, double terms);
// The sum computed in `dtype` (integers wrap).
Range rounded(const RangeCall& call, DType dtype, const DotSum& sum, double terms);

// Results kept in a wider format than the dtype may lie between its values.
Range outward(DType dtype, Range range, int ulps = 1);

// Sums over the grid of a result.
struct SumGrid {
  bool ranked = false;
  Dims sizes = {};
  std::vector<Cuts> cuts = {};  // per axis when ranked
  std::vector<DotSum> cells = {};
  double terms = 0;

  std::size_t cell_count() const;
  std::int64_t block_start(std::size_t axis, std::size_t block) const;
  // Exclusive; kManyElements when the axis' size is unknown.
  std::int64_t block_end(std::size_t axis, std::size_t block) const;
};
AbsTensor rounded(const RangeCall& call, const Type& type, const SumGrid& grid);

// Blocks of the grid place of a cell, axis by axis.
std::vector<std::size_t> place_of(const SumGrid& grid, std::size_t cell);

// At most `blocks` even pieces of an axis.
Cuts even_cuts(std::int64_t size, std::size_t blocks);

// Indices [begin, end) of an axis; all of them by default.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};
// Hull of the elements of x inside an extent per axis (of the first axes; the others are taken whole).
Range hull_within(const AbsTensor& x, std::span<const Extent> extents);

}  // namespace finity
