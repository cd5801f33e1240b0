// Signals: Resize along one axis at a time, sampling at the positions of a grid, Fourier transforms.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/extra/image/resample.h"
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
    std::vector<std::int64_t> given;
    for (const auto& list : taps) {
      given.push_back(k < list.size() ? 1 : 0);
      sources.push_back(list.empty() ? 0 : list[k < list.size() ? k : 0].source);
      weights.push_back(k < list.size() ? list[k].weight : 0.0);
    }
    const at::Tensor factors = list_of(weights).to(x.scalar_type()).reshape(along);
    at::Tensor term = x.index_select(axis, list_of(sources));
    const bool plain = std::ranges::all_of(weights, [](double weight) { return weight == 1.0; });
    if (!plain) term = at::mul(term, factors);
    if (std::ranges::find(given, 0) != given.end()) {
      const at::Tensor mask = list_of(given).to(at::kBool).reshape(along);
      term = at::where(mask, term, at::zeros_like(term));
    }
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
  const at::Tensor mask = list_of(inside).to(at::kBool).reshape(along);
  return at::where(mask, y, at::full({}, value, y.options()));
}

template <ResizePlan (*Plan)(const EvalCall&)>
void lower_resize(TorchCall& call) {
  at::Tensor x = call.in(0);
  // Integers are rounded and saturate, which LibTorch's sums do not.
  if (is_integral(x) || x.is_complex() || x.numel() == 0) return lower_by_reference(call);
  std::vector<Datum> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) operands.push_back(to_datum(call.value(i)));
  for (std::size_t i = 1; i < call.input_count(); ++i) call.require_plain(i);
  const EvalCall eval(call.description(), operands, call.rng());
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
  // LibTorch reads where it must not when it derives by positions that are not numbers.
  if (!at::isfinite(grid).all().item<bool>()) return lower_by_reference(call);
  call.out(0, at::grid_sampler(x, grid, filter, beyond, call.integer("align_corners") != 0));
}

void lower_affine_grid(TorchCall& call) {
  call.out(0, at::affine_grid_generator(call.in(0), call.ints(1), call.integer("align_corners") != 0));
}

// ---- Fourier transforms -------------------------------------------------------------------

// [..., 1 or 2] as complex numbers without the last axis; in float64, as the reference computes.
at::Tensor as_complex(const at::Tensor& x) {
  if (x.dim() < 2 || (x.size(-1) != 1 && x.size(-1) != 2)) throw Error("the last axis is not that of parts");
  const at::Tensor real = x.select(-1, 0).to(at::kDouble);
  return at::complex(real, x.size(-1) == 2 ? x.select(-1, 1).to(at::kDouble) : at::zeros_like(real));
}

void lower_dft(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const bool inverse = call.integer("inverse") != 0, half = call.integer("onesided") != 0;
  if (half && inverse) return lower_by_reference(call);
  if (half && x.size(-1) == 2) throw Error("onesided needs a real input");
  const std::int64_t own = call.version() < 20 ? call.integer("axis", 1)
                           : call.has(2)       ? call.in(2).item<std::int64_t>()
                                               : -2;
  const std::int64_t axis = axis_of(own, x.dim());
  if (axis == x.dim() - 1) throw Error("the axis is the one of real and imaginary parts");
  const std::int64_t points = call.has(1) ? call.in(1).item<std::int64_t>() : x.size(axis);
  const at::Tensor signal = as_complex(x);
  at::Tensor result = inverse ? at::fft_ifft(signal, points, axis) : at::fft_fft(signal, points, axis);
  if (half) result = result.narrow(axis, 0, points / 2 + 1);
  call.out(0, at::view_as_real(result.contiguous()));
}

void lower_stft(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() != 2 && x.dim() != 3) throw Error("signal has rank " + std::to_string(x.dim()));
  const bool half = call.integer("onesided") != 0;
  const at::Tensor signal = as_complex(x.dim() == 2 ? x.unsqueeze(-1) : x);
  if (half && x.dim() == 3 && x.size(2) == 2) throw Error("onesided needs a real input");
  const std::int64_t length = call.has(3)   ? call.in(3).item<std::int64_t>()
                              : call.has(2) ? call.in(2).numel()
                                            : x.size(1);
  at::Tensor frames = signal.unfold(1, length, call.in(1).item<std::int64_t>());
  if (call.has(2)) frames = at::mul(frames, call.in(2));
  at::Tensor result = at::fft_fft(frames, length, -1);
  if (half) result = result.narrow(-1, 0, length / 2 + 1);
  call.out(0, at::view_as_real(result.contiguous()));
}

constexpr TorchLowering kEntries[] = {
    {"DFT", "", lower_dft},
    {"STFT", "", lower_stft},
    {"Resize", "", lower_resize<plan_resize>},
    {"Upsample", "", lower_resize<plan_upsample>},
    {"GridSample", "", lower_grid_sample},
    {"GridSample", "com.microsoft", lower_grid_sample},
    {"AffineGrid", "", lower_affine_grid},
};

}  // namespace

std::span<const TorchLowering> torch_samples() { return kEntries; }

}  // namespace finity
