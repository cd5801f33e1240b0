// Interpolation: Resize along one axis at a time, and sampling at the positions of a grid.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/resample.h"
#include "torch/lowering.h"

namespace finity {

namespace {

// Every output index is a weighted sum of a few source indices: one gather for each of them. Where there are fewer
// than elsewhere, nothing is added: not zero times an element, which may be infinite.
at::Tensor resampled(const at::Tensor& x, std::int64_t axis, const AxisTaps& taps) {
  std::size_t most = 0;
  for (const auto& list : taps) most = std::max(most, list.size());
  Dims along(static_cast<std::size_t>(x.dim()), 1);
  along[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(taps.size());
  at::Tensor result;
  for (std::size_t k = 0; k < most; ++k) {
    std::vector<std::int64_t> sources;
    std::vector<double> weights;
    for (const auto& list : taps) {
      sources.push_back(list.empty() ? 0 : list[k < list.size() ? k : 0].source);
      weights.push_back(k < list.size() ? list[k].weight : 0.0);
    }
    const at::Tensor factors = at::tensor(weights, at::kDouble).to(x.scalar_type()).reshape(along);
    at::Tensor term = x.index_select(axis, at::tensor(sources, at::kLong));
    const auto is = [&](double number) { return std::ranges::count(weights, number); };
    if (is(1.0) != static_cast<std::ptrdiff_t>(weights.size())) term = at::mul(term, factors);
    if (is(0.0) > 0) term = at::where(at::eq(factors, 0), at::zeros_like(term), term);
    result = result.defined() ? at::add(result, term) : term;
  }
  if (!result.defined()) throw Unsupported("no position lies inside");
  return result;
}

// Positions that lie outside take a fixed value.
at::Tensor extrapolated(const at::Tensor& y, std::int64_t axis, const AxisTaps& taps, double value) {
  std::vector<std::int64_t> inside;
  for (const auto& list : taps) inside.push_back(list.empty() ? 0 : 1);
  Dims along(static_cast<std::size_t>(y.dim()), 1);
  along[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(taps.size());
  const at::Tensor mask = at::tensor(inside, at::kLong).to(at::kBool).reshape(along);
  return at::where(mask, y, at::full({}, value, y.options()));
}

template <ResizePlan (*Plan)(const EvalCall&)>
void lower_resize(TorchCall& call) {
  at::Tensor x = call.in(0);
  // Integers are rounded and saturate, which LibTorch's sums do not.
  if (is_integral(x) || x.is_complex() || x.numel() == 0) return lower_by_reference(call);
  std::vector<Datum> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) operands.push_back(to_datum(call.value(i)));
  const EvalCall eval(call.graph(), call.node(), operands, call.rng(), {});
  const ResizePlan plan = Plan(eval);
  std::vector<AxisTaps> taps;
  for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
    taps.push_back(axis_taps(plan.axes[axis], plan.options));
    if (plan.axes[axis].out == 0) return lower_by_reference(call);
    if (!plan.axes[axis].identity()) x = resampled(x, static_cast<std::int64_t>(axis), taps.back());
  }
  for (std::size_t axis = 0; axis < taps.size(); ++axis) {
    const bool gap = std::ranges::any_of(taps[axis], [](const auto& list) { return list.empty(); });
    if (gap) x = extrapolated(x, static_cast<std::int64_t>(axis), taps[axis], plan.extrapolation);
  }
  call.out(0, x);
}

void lower_grid_sample(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (is_integral(x) || x.is_complex() || x.dim() < 4 || x.dim() > 5) return lower_by_reference(call);
  const std::string mode = call.text("mode", "linear"), padding = call.text("padding_mode");
  const bool cubic = mode == "cubic" || mode == "bicubic";
  if (cubic && x.dim() == 5) return lower_by_reference(call);
  const int filter = mode == "nearest" ? 1 : cubic ? 2 : 0;
  const int beyond = padding == "border" ? 1 : padding == "reflection" ? 2 : 0;
  const at::Tensor grid = call.in(1).to(x.scalar_type());
  call.out(0, at::grid_sampler(x, grid, filter, beyond, call.integer("align_corners") != 0));
}

void lower_affine_grid(TorchCall& call) {
  call.out(0, at::affine_grid_generator(call.in(0), call.ints(1), call.integer("align_corners") != 0));
}

constexpr TorchLowering kEntries[] = {
    {"Resize", "", lower_resize<plan_resize>}, {"Upsample", "", lower_resize<plan_upsample>},
    {"GridSample", "", lower_grid_sample},     {"GridSample", "com.microsoft", lower_grid_sample},
    {"AffineGrid", "", lower_affine_grid},
};

}  // namespace

std::span<const TorchLowering> torch_samples() { return kEntries; }

}  // namespace finity
