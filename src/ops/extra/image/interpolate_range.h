// Ranges of what is a weighted sum of neighbours, the weights adding up to 1 on each axis: Resize, Upsample,
// GridSample.
#pragma once

#include <optional>

#include "ops/reduce/reduced_axes.h"
#include "ops/table/range_call.h"

namespace finity {

// The negative lobes of a cubic filter with coefficient a weigh a t (1 - t) together at a point t between two elements.
inline double cubic_overshoot(double coefficient) { return (coefficient < 0 ? -coefficient : coefficient) / 4; }

struct Interpolation {
  bool moves_only = false;             // every result is an element
  std::optional<double> negative = 0;  // weights below zero add up to at most this on each axis; nullopt: not known
  double taps = 2;                     // elements that are weighted, per axis, at most
  std::optional<double> fill = {};     // what lies outside
  AxisSet untouched = {};              // axes along which nothing moves; empty: none is known
};

// One weighted sum over `axes` axes, rounded into `dtype`.
Range weighted_range(DType dtype, DType carrier, const Range& x, std::size_t axes, double negative, double taps);
// Output 0 from input 0.
void range_interpolated(RangeCall& call, const Interpolation& how);

}  // namespace finity
