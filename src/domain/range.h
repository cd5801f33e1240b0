// What is known of one element: the hull of its finite values, in the values of
// its dtype, and which of NaN, +Inf, -Inf it may be besides. The ends are real
// values of the dtype, so absorption and saturation come out exactly: the range of
// 1 - sigmoid(20) in float32 is [0, 0].
//
// Integers up to 64 bits use the same doubles; ends beyond 2^53 are rounded outwards.
#pragma once

#include <limits>
#include <string>

#include "tensor/dtype.h"

namespace finity {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

struct Range {
  double lo = kInf;      // of the finite values; lo > hi: there is none
  double hi = -kInf;     //
  bool nan = false;      // may be NaN
  bool pinf = false;     // may be +Inf
  bool ninf = false;     // may be -Inf
  bool integer = false;  // every finite value is an integer
  bool nonzero = false;  // zero is not among the values although lo <= 0 <= hi
  double gap = 0;        // only with nonzero: no value is smaller than this in magnitude

  bool operator==(const Range&) const = default;

  // Comparisons are written so that a NaN end proves nothing.
  bool has_finite() const { return lo <= hi; }
  bool is_empty() const { return !has_finite() && !nan && !pinf && !ninf; }
  bool is_finite() const { return has_finite() && !nan && !pinf && !ninf; }  // and not empty
  bool is_point() const { return is_finite() && lo == hi; }
  bool may_be_zero() const { return lo <= 0 && hi >= 0 && !nonzero; }
  bool may_be_negative() const { return ninf || (has_finite() && lo < 0); }
  bool may_be_positive() const { return pinf || (has_finite() && hi > 0); }
  bool nonnegative() const { return !nan && !ninf && (!has_finite() || lo >= 0); }
  bool contains(double x) const;
  // Smallest and largest value that is not NaN; +Inf and -Inf when there is none.
  double least() const { return ninf ? -kInf : has_finite() ? lo : kInf; }
  double greatest() const { return pinf ? kInf : has_finite() ? hi : -kInf; }
  // Largest absolute value of the finite ones; 0 when there is none.
  double magnitude() const;
  // No finite value is smaller than this in magnitude; Inf when there is none.
  double least_magnitude() const;
  Range finite() const;  // without NaN and infinities
};

// ---- making ----------------------------------------------------------------
Range empty_range();
Range point(double x);  // NaN and infinities become flags
// Every value of the dtype: for floats with NaN and infinities where it has them.
Range top(DType dtype);
Range any_finite(DType dtype);
// From real bounds: rounds them into the dtype. A float bound beyond the largest finite value
// becomes an infinity flag; integers outside their type wrap, so anything is possible.
// A NaN bound gives top. `integer` is true for integer dtypes.
Range from_bounds(DType dtype, double lo, double hi);
// The same after moving both ends `ulps` units of the dtype outwards (library functions are not exact).
Range from_bounds(DType dtype, double lo, double hi, int ulps);

// ---- lattice ---------------------------------------------------------------
Range join(const Range& a, const Range& b);
Range meet(const Range& a, const Range& b);
// a where b stays inside it, else the next threshold: 0, +-1, powers, the dtype's limits, infinities.
Range widen(const Range& a, const Range& b, DType dtype);
bool is_subset(const Range& a, const Range& b);

// ---- arithmetic in a dtype: exactly what one correctly rounded operation can give --------
Range add(DType dtype, const Range& a, const Range& b);
Range subtract(DType dtype, const Range& a, const Range& b);
Range multiply(DType dtype, const Range& a, const Range& b);
Range divide(DType dtype, const Range& a, const Range& b);  // integers truncate; by zero: infinities and NaN
Range negate(DType dtype, const Range& a);
Range absolute(DType dtype, const Range& a);
Range square(DType dtype, const Range& a);      // a * a, both the same element
Range minimum(const Range& a, const Range& b);  // NaN in either gives NaN
Range maximum(const Range& a, const Range& b);
// The sum of `count` elements (least..most of them) of one range, added in any order and rounded
// into `dtype` at the end; `accumulator` is the format the partial sums are kept in.
Range sum_of(DType dtype, DType accumulator, const Range& each, double least, double most);

// y = f(x) for f increasing over the whole range; f is evaluated in double, given infinities too.
// The result is widened by `ulps` and then kept inside [floor, ceiling].
Range increasing(DType dtype, const Range& x, double (*f)(double), int ulps, double floor = -kInf,
                 double ceiling = kInf);

// ---- float formats ---------------------------------------------------------
double max_finite(DType dtype);           // of integers too: their largest value
double lowest_finite(DType dtype);        //
double min_subnormal(DType dtype);        // floats
double unit_roundoff(DType dtype);        // u: |fl(x) - x| <= u |x| for normal results; 0 for integers
double next_up(DType dtype, double x);    // neighbours in the dtype
double next_down(DType dtype, double x);  //
// |fl(x) - x| for any real |x| <= magnitude.
double rounding_error(DType dtype, double magnitude);
// n u / (1 - n u): relative error of a sum or dot product of n terms in any order; Inf when n u >= 1.
double summation_error(DType accumulator, double terms);

// "[-3, 5]", "[0, 1] or NaN", "+Inf only", "nothing"; shortest digits that read back.
std::string to_string(const Range& range);

}  // namespace finity
