#include "ops/extra/image/resize_gradient.h"

#include <algorithm>

#include "base/error.h"
#include "ops/extra/image/resize_plan.h"
#include "ops/movement/move_gradient.h"
#include "ops/table/build_call.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Row k holds the weights that output k gives to the elements of the axis.
Tensor weights_of(const AxisTaps& taps, std::int64_t size, DType dtype) {
  std::vector<double> weights(taps.size() * static_cast<std::size_t>(size), 0.0);
  for (std::size_t k = 0; k < taps.size(); ++k) {
    for (const Tap& tap : taps[k])
      weights[k * static_cast<std::size_t>(size) + static_cast<std::size_t>(tap.source)] += tap.weight;
  }
  return from_elements<double>(dtype, {static_cast<std::int64_t>(taps.size()), size}, weights);
}

// Every output gives its gradient to the elements it was made of, axis after axis.
void interpolation_gradient(BuildCall& call, const std::vector<AxisPlan>& plans, const ResampleOptions& options) {
  ValueId arriving = call.grad(0);
  const DType dtype = call.type(arriving).dtype;
  for (std::size_t axis = 0; axis < plans.size(); ++axis) {
    if (plans[axis].identity()) continue;
    std::vector<std::int64_t> order(plans.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::swap(order[axis], order.back());
    const Tensor weights = weights_of(axis_taps(plans[axis], options), plans[axis].in, dtype);
    const ValueId rows = transpose(call, arriving, order);
    // A row may be all there is.
    const ValueId shares = call.add("MatMul", {rows, call.writer().constant(weights)});
    arriving = transpose(call, shares, std::move(order));
  }
  call.give(0, arriving);
}

std::vector<AxisPlan> planned(const BuildCall& call, const ResizeRequest& request) {
  const std::optional<Dims> dims = call.dims(call.in(0));
  if (!dims) throw Unsupported("the gradient of an interpolation needs sizes that are known");
  return plan_axes(*dims, request);
}

bool is_given(const BuildCall& call, std::size_t i) {
  return call.has_input(i) && !(call.dims(call.in(i)) && element_count(*call.dims(call.in(i))) == 0);
}

const Tensor& known_operand(const BuildCall& call, std::size_t i) {
  const Tensor* known = call.known(call.in(i));
  if (known == nullptr) throw Unsupported("the gradient of an interpolation needs sizes or scales that are known");
  return *known;
}

}  // namespace

void resize_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const ResampleOptions options = resize_options(call);
  if (options.mode == "nearest") {
    // Positions outside are no element.
    const Attrs attrs = with_attr(call.attrs(), "extrapolation_value", 0.0F);
    return scatter_back(call, 0, {}, call.version() < 11 ? nullptr : &attrs);
  }
  const std::size_t at = scales_input(call);
  ResizeRequest request{.axes = resized_axes(call, call.rank(call.in(0))),
                        .policy = call.text("keep_aspect_ratio_policy")};
  if (at == 2 && is_given(call, 3)) request.sizes = entries_of(elements<std::int64_t>(known_operand(call, 3)));
  else if (is_given(call, at)) request.scales = elements<float>(known_operand(call, at));
  else request.scales.emplace();
  std::vector<AxisPlan> plans = planned(call, request);
  if (options.coordinates == "tf_crop_and_resize") {
    set_roi(elements<float>(known_operand(call, 1)), request.axes, plans);
  }
  interpolation_gradient(call, plans, options);
}

void upsample_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const ResampleOptions options = upsample_options(call);
  if (options.mode == "nearest") return scatter_back(call, 0);
  auto scales = upsample_scales(call);
  if (!scales) scales = elements<float>(known_operand(call, 1));
  interpolation_gradient(call, planned(call, upsample_request(call, call.rank(call.in(0)), *scales)), options);
}

}  // namespace finity
