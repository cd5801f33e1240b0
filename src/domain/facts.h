// Relations that intervals and affine forms cannot express, attached to a tensor.
// Each speaks of the tensor ("this") and mostly of another value, its source, and
// holds in floating point, not only in real numbers. Facts about a source are only
// used against the same value identity (see AbsTensor::identity).
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "domain/range.h"

namespace finity {

struct Fact {
  enum class Kind : std::uint8_t {
    max_of,           // this == max of source over `axes`; slack, lost: what rounding may make of it, as below
    at_least,         // this >= source - slack * |source or this| - lost, elementwise, this broadcast to the source
    at_most,          // this <= source, likewise
    at_least_abs,     // this >= |source| * (1 - slack) - lost, times the number in `range` if there is one
    abs_of,           // this == |source|
    at_most_inverse,  // |this| * |source| <= range.hi
    square_sum_of,    // this >= (sum of source^2 over `axes`) * (1 - slack) - tiny
    mean_of,          // this is the mean of source over `axes`, computed in floats
    square_of,        // this == source * source, rounded or a few units off (Pow)
    mean_square_of,   // this is the mean of (square_of source) over `axes`
    mean_square_at_least,  // this >= (mean of source^2 over `axes`, `total` elements) * (1 - slack), up to underflow
    row_max,               // in every row along `axes`, the largest element lies in `range` (needs no source)
    row_sum,               // elements are >= 0 and every row along `axes` sums to a value in `range`
    sum_of,                // this == sum of the nonnegative source over `axes`, computed in floats
    max_operand,           // this is an elementwise max of `total` operands, and operand number `axes` is source
                           // (an invalid source: the number zero)
    one_of_max,            // source is an elementwise max of several operands; where operand number k of
                           // `axes` (a bit set of operand numbers) is that max, this lies in `range`
    norm_at_least,         // this >= (Euclidean norm of source over `axes`) * (1 - slack) - lost, times the number in
                           // `range` if there is one
    inverse_norm,          // |this| * (Euclidean norm of source over `axes`) <= range.hi
    row_norm,              // in every row along `axes`, the norm of order `total` (1 or 2) is at most range.hi
    row_min,               // in every row along `axes`, the smallest element lies in `range`
  };
  Kind kind = Kind::max_of;
  ValueId source = {};
  std::uint32_t axes = 0;  // bit set over the axes of the source (row facts: of this)
  // The reduced axes are still there with size 1 (or `this` broadcasts right without them).
  bool aligned = true;
  double slack = 0;  // relative
  // Of square_sum_of and square_of: the relative error of each square, besides its rounding.
  double lost = 0;  // absolute, of comparisons: squares of small numbers vanish
  Range range = {};
  int total = 0;  // one_of_max: number of operands of the max
};

using Facts = std::vector<Fact>;

// Speaks of this tensor alone, row by row along `axes`.
bool speaks_of_rows(const Fact& fact);
const Fact* find_fact(const Facts& facts, Fact::Kind kind, ValueId source);
const Fact* find_fact(const Facts& facts, Fact::Kind kind);

}  // namespace finity
