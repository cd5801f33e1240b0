// Interpolation along one axis at a time: every output index is a weighted sum
// of a few source indices. Coordinates are computed in float32, as common
// kernels do, because rounding them decides which element is the nearest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/table/call.h"
#include "tensor/tensor.h"

namespace finity {

struct Tap {
  std::int64_t source = 0;
  double weight = 0;
};

// Per output index; an empty list lies outside and takes the extrapolation value.
using AxisTaps = std::vector<std::vector<Tap>>;

struct AxisPlan {
  std::int64_t in = 0;
  std::int64_t out = 0;
  float scale = 1;
  float length = 0;  // in * scale before it was rounded down to `out`
  float roi_start = 0;
  float roi_end = 1;

  // Nothing to interpolate.
  bool identity() const { return in == out && scale == 1 && roi_start == 0 && roi_end == 1; }
};

struct ResampleOptions {
  std::string mode = "nearest";            // nearest, linear, cubic
  std::string coordinates = "half_pixel";  // coordinate_transformation_mode
  std::string rounding = "simple";         // nearest_mode; simple: down, or up where the axis shrinks
  double cubic_coeff = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

AxisTaps axis_taps(const AxisPlan& plan, const ResampleOptions& options);

// What a Resize or Upsample node asks for, by axis.
struct ResizePlan {
  std::vector<AxisPlan> axes = {};
  ResampleOptions options = {};
  double extrapolation = 0;
};
ResizePlan plan_resize(const EvalCall& call);
ResizePlan plan_upsample(const EvalCall& call);
// The one of the two that says what the op does; null: it does not resample.
ResizePlan (*resize_planner(const OpDef& op))(const EvalCall&);

// The four weights of cubic convolution for a point `ratio` beyond the second one.
std::array<double, 4> cubic_weights(double ratio, double coeff);

}  // namespace finity
