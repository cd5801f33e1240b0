// The direct convolution behind Conv, its integer and quantized forms, and
// CausalConvWithState. X is [N, C, spatial...], W is [M, C / group, kernel...].
// Taps that fall into the padding are skipped, not multiplied by zero, so an
// infinite weight there leaves no NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/table/call.h"
#include "ops/windows/window.h"

namespace finity {

struct ConvPlan {
  std::int64_t batch = 1;
  std::int64_t groups = 1;
  std::int64_t in_channels = 1;   // of one group
  std::int64_t out_channels = 1;  // of one group
  std::vector<PlacedAxis> axes = {};

  Dims out_dims() const;
};

// [N, M, output...] for inputs `x` and `w` of the node; unknown parts stay unknown.
void infer_convolution(InferCall& call, std::size_t x, std::size_t w, std::optional<std::size_t> bias = {});
// Throws Error unless input `bias`, where there is one, has one element per output channel.
void check_bias(const InferCall& call, std::size_t bias, const Dim& channels);
// Throws Error when the shapes do not fit each other and the attributes.
ConvPlan plan_convolution(const Call& call, const Dims& x, const Dims& w);

// A is float, double, or std::uint32_t (integers that wrap).
template <class A>
std::vector<A> convolve(const ConvPlan& plan, std::span<const A> x, std::span<const A> w);

// values[n, m, ...] += bias[m]; throws Error unless there is one bias per output channel.
template <class A>
void add_bias(const ConvPlan& plan, std::vector<A>& values, std::span<const A> bias);

}  // namespace finity
