// What Resize and Upsample are asked for, and what follows for each axis: shared by evaluation, types and gradients.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ops/extra/image/resample.h"
#include "ops/shared/shape_values.h"
#include "ops/table/call.h"

namespace finity {

// What is asked of each axis in `axes`: exactly one of scales and sizes.
struct ResizeRequest {
  std::vector<std::size_t> axes = {};
  std::optional<std::vector<float>> scales = {};
  std::optional<Entries> sizes = {};
  std::string policy = "stretch";
};

// Opset 10 has (X, scales), later ones (X, roi, scales, sizes).
std::size_t scales_input(const Call& call);
std::vector<std::size_t> resized_axes(const Call& call, std::size_t rank);
Shape resized_shape(const Shape& in, const ResizeRequest& request);
std::vector<AxisPlan> plan_axes(const Dims& in, const ResizeRequest& request);
void set_roi(const std::vector<float>& roi, const std::vector<std::size_t>& axes, std::vector<AxisPlan>& plans);
ResampleOptions resize_options(const Call& call);

// Opset 1: two attributes for [N, C, H, W]; 7: one list; 9: an operand.
std::optional<std::vector<float>> upsample_scales(const Call& call);
ResizeRequest upsample_request(const Call& call, std::size_t rank, std::vector<float> scales);
ResampleOptions upsample_options(const Call& call);

}  // namespace finity
