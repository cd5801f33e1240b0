#include "ops/extra/signal/signal_range.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "ops/reduce/reduce_range.h"
#include "ops/shared/range_groups.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

// A sum of up to `points` elements, each times a number of magnitude 1: both parts lie in a circle around 0.
// `divided`: by the number of points, as inverse transforms are. Fast transforms add in other orders and multiply by
// roots of 1 more than once, so each level of their recursion may err.
Range spectrum(DType dtype, DType carrier, const Range& x, double points, bool complex, bool divided) {
  if (x.is_empty()) return point(0);  // nothing but padding
  const double u = unit_roundoff(carrier);
  const double radius = x.magnitude() * (complex ? std::numbers::sqrt2 : 1.0);
  const double levels = std::log2(points + 1) + 2;
  const double growth = std::min(sum_growth(carrier, points * (complex ? 2 : 1)) + 16 * levels * u, 1 + points);
  const double tiny = points * min_subnormal(carrier);  // what products lose near zero
  const double sum = radius * points * growth + tiny;
  Range result = from_bounds(dtype, -sum, sum);
  if (divided) result = from_bounds(dtype, -radius * growth - tiny, radius * growth + tiny);
  const bool overflow = !(sum <= max_finite(carrier));
  const bool infinite = x.pinf || x.ninf;
  result.pinf |= overflow || infinite;
  result.ninf |= overflow || infinite;
  result.nan |= overflow || infinite || x.nan;
  if (x.magnitude() == 0 && x.is_finite()) result = point(0);
  return result;
}

// A transform of n points as a convolution: sums over at most 4 n points of products of two spectra, each at most n
// times as large as its elements.
void join_convolution(const RangeCall& call, double points, bool known, AbsTensor& result) {
  const bool direct = known && std::exp2(std::round(std::log2(points))) == points;
  if (direct || !call.may(Way::longer_transform) || result.cells.empty()) return;
  const DType carrier = call.accumulators(result.dtype).back();
  const double spectrum = 2 * points * call.hull(0).magnitude();
  const bool overflows = !(spectrum * 2 * points * 4 * points <= max_finite(carrier));
  const double error = 64 * unit_roundoff(carrier) * std::log2(4 * points) * spectrum * std::sqrt(4 * points);
  for (Range& cell : result.cells) {
    if (cell.has_finite() && cell.magnitude() > 0) {
      const Range wide = from_bounds(result.dtype, cell.lo - error, cell.hi + error);
      cell.lo = wide.lo;
      cell.hi = wide.hi;
    }
    if (overflows) cell.nan = cell.pinf = cell.ninf = true;
  }
}

double points_of(RangeCall& call, std::size_t input, double otherwise) {
  if (!call.has_range(input)) return otherwise;
  const Range points = call.hull(input);
  return points.has_finite() ? std::clamp(points.hi, 1.0, 0x1p24) : 0x1p24;
}

bool is_complex_signal(const AbsTensor& x, std::size_t rank) {
  return !x.ranked || x.rank() < rank || x.sizes.back() != 1;
}

}  // namespace

namespace {

// Elements along the transformed axis, or along the longest when it is not known.
double axis_points(RangeCall& call, const AbsTensor& x) {
  constexpr double kMost = 0x1p24;
  if (!x.ranked || x.rank() < 2) return kMost;
  std::optional<std::int64_t> known;
  if (call.version() < 20) known = call.integer("axis", 1);
  else if (!call.has_input(2)) known = -2;
  else if (const auto axis = call.ints(2); axis && axis->size() == 1) known = axis->front();
  double longest = 1;
  for (std::size_t axis = 0; axis + 1 < x.rank(); ++axis) {
    if (known && axis != normalize_axis(*known, x.rank())) continue;
    longest = std::max(longest, x.sizes[axis] < 0 ? kMost : static_cast<double>(x.sizes[axis]));
  }
  return longest;
}

}  // namespace

void range_dft(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  const bool inverse = call.integer("inverse") != 0;
  const bool onesided = call.integer("onesided") != 0;
  // Half a spectrum stands for the whole.
  const double points = axis_points(call, x) * (inverse && onesided ? 2 : 1);
  // Zeros that pad the signal add nothing, but may shorten it: the divisor is the number of points.
  const double length = points_of(call, 1, points);
  const bool shorter = length < points;
  const Range each = call.hull(0);
  const bool complex = is_complex_signal(x, 2);
  call.out(0, in_all_carriers(call, dtype, [&](DType carrier) {
             const bool divided = inverse && !shorter && !call.has_range(1);
             return spectrum(dtype, carrier, each, std::min(points, length), complex, divided);
           }));
  const bool known = points < 0x1p24 && (!call.has_range(1) || call.hull(1).is_point());
  if (call.has_output(0)) join_convolution(call, length, known, call.outs()[0]);
}

void range_stft(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  double length = x.ranked && x.rank() >= 2 && x.sizes[1] >= 0 ? static_cast<double>(x.sizes[1]) : 0x1p24;
  if (call.has_range(2) && call.in(2).ranked && call.in(2).rank() == 1 && call.in(2).sizes[0] >= 0) {
    length = static_cast<double>(call.in(2).sizes[0]);
  }
  const double points = std::max(1.0, std::min(length, points_of(call, 3, length)));
  const bool complex = x.ranked && x.rank() == 2 ? false : is_complex_signal(x, 3);
  // A window is read as if it were complex too, beyond its end.
  if (complex && call.has_range(2) && call.may(Way::longer_transform)) return call.top(0);
  call.out(0, in_all_carriers(call, dtype, [&](DType carrier) {
             Range each = call.hull(0);
             if (call.has_range(2)) each = multiply(carrier, each, call.hull(2));
             return spectrum(dtype, carrier, each, points, complex, false);
           }));
  if (call.has_output(0)) join_convolution(call, points, points < 0x1p24, call.outs()[0]);
}

// ---- windows -----------------------------------------------------------------

namespace {

// A symmetric window of size 1 divides by 0.
void range_window(RangeCall& call, double least) {
  const DType dtype = call.out_dtype(0);
  const Range size = call.hull(0);
  const bool single = call.integer("periodic") == 0 && size.contains(1);
  Range result =
      is_float(dtype) ? from_bounds(dtype, least, 1, 1 + call.ulps()) : Range{.lo = 0, .hi = 1, .integer = true};
  if (least == 0) result.lo = 0;  // 1 - cos(x) is never less
  if (single) result = is_float(dtype) ? join(result, {.nan = true}) : any_finite(dtype);
  call.out(0, result);
}

}  // namespace

void range_hann_window(RangeCall& call) { range_window(call, 0); }
// ONNX Runtime's 25/46 and 21/46 are float32, in windows of doubles too.
void range_hamming_window(RangeCall& call) { range_window(call, 4.0 / 46.0 - 0x1p-24); }
void range_blackman_window(RangeCall& call) { range_window(call, -1e-6); }

// Triangles of height 1.
void range_mel(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  call.out(0, Range{.lo = 0, .hi = 1, .integer = !is_float(dtype)});
}

}  // namespace finity
