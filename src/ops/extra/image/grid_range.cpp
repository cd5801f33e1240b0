#include "ops/extra/image/grid_range.h"

#include <algorithm>
#include <cmath>

#include "ops/extra/image/interpolate_range.h"
#include "ops/shared/range_rules.h"

namespace finity {

double longest_axis(const AbsTensor& x) {
  double size = 0;
  for (std::size_t axis = 2; axis < x.rank(); ++axis) {
    size = std::max(size, x.sizes[axis] < 0 ? kManyElements : static_cast<double>(x.sizes[axis]));
  }
  return x.ranked ? size : kManyElements;
}

bool loses_positions(const Range& grid, double size) {
  return grid.nan || grid.pinf || grid.ninf || !(grid.magnitude() * (size + 2) < max_finite(DType::float32));
}

namespace {

// Weights of 0 make NaN of what is not finite.
bool is_defined(const RangeCall& call) {
  return call.hull(0).is_finite() && call.hull(1).is_finite() && call.in(1).ranked &&
         !loses_positions(call.hull(2), longest_axis(call.in(1)));
}

double spatial_axes(const RangeCall& call) { return static_cast<double>(call.in(1).rank()) - 2; }

double size_of(const AbsTensor& x, std::size_t axis) {
  return x.sizes[axis] < 0 ? kManyElements : static_cast<double>(x.sizes[axis]);
}

// What `terms` additions in float64 may add to a sum of this size.
double with_rounding(double sum, double terms) { return sum * (1 + 4 * (terms + 16) * unit_roundoff(DType::float64)); }

}  // namespace

// Of each sample a pixel gets a share, all shares of a linear filter together at most 1 (1.375 along each axis in
// absolute terms for a cubic one, whose shares may be negative).
void range_grid_sample_gradient(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const AbsTensor& arriving = call.in(0);
  if (!is_defined(call) || !arriving.ranked) return call.out(0, top(dtype));
  const std::string mode = call.text("mode", "linear");
  const bool cubic = mode == "cubic" || mode == "bicubic";
  double samples = 1;
  for (std::size_t axis = 2; axis < arriving.rank(); ++axis) samples *= size_of(arriving, axis);
  const double taps = std::pow(cubic ? 4 : 2, spatial_axes(call));
  const Range each = call.hull(0);
  const double most = with_rounding(samples * std::max(each.hi, 0.0), samples * taps);
  const double least = with_rounding(samples * std::min(each.lo, 0.0), samples * taps);
  const double either = std::pow(1.375, spatial_axes(call)) * std::max(most, -least);
  call.out(0, cubic ? from_bounds(dtype, -either, either) : from_bounds(dtype, least, most));
}

// Along an axis a sample moves from one pixel to the next while the position moves by 2 of its size; all channels move.
void range_grid_sample_slopes(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  if (!is_defined(call) || call.in(1).rank() < 2) return call.out(0, top(dtype));
  const Range pixels = join(call.hull(1), point(0));  // outside there may be zeros
  const double channels = size_of(call.in(1), 1), terms = channels * std::pow(2, spatial_axes(call));
  const double lost = terms * 8 * unit_roundoff(DType::float64) * pixels.magnitude();
  const double apart = pixels.hi - pixels.lo + lost;
  const double most = channels * call.hull(0).magnitude() * apart * longest_axis(call.in(1)) / 2;
  const double bound = with_rounding(most, terms);
  call.out(0, from_bounds(dtype, -bound, bound));
}

}  // namespace finity
