// Pools: one value per window of every channel of X [N, C, spatial...].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/shared/accumulate.h"
#include "ops/shared/shapes.h"
#include "ops/table/call.h"
#include "ops/windows/window.h"

namespace finity {

struct PoolPlan {
  std::int64_t planes = 1;  // N * C
  std::vector<PlacedAxis> axes = {};
  Dims out = {};
};

Shape pool_shape(const Call& call, const Shape& x);
PoolPlan plan_pool(const Call& call, const Dims& x);
// One window over everything.
PoolPlan plan_global_pool(const Dims& x);
Shape global_pool_shape(const Shape& x);
// p of the norm that LpPool and GlobalLpPool take: a float in opset 1, an integer since; nothing when it is neither.
std::optional<double> pool_exponent(const Attrs& attrs);

// Calls f(position) for the elements under a window, row-major; the position counts within the channel.
template <class F>
void visit_window(std::span<const PlacedAxis> axes, std::span<const Taps> taps, std::int64_t base, F& f) {
  if (axes.empty()) {
    f(base);
    return;
  }
  const std::int64_t start = base * axes[0].input + taps[0].first;
  for (std::int64_t i = 0; i < taps[0].count; ++i) {
    visit_window(axes.subspan(1), taps.subspan(1), start + i * axes[0].dilation, f);
  }
}

// Calls f(output, plane, taps) for every element of the output; `output` counts through all of it.
template <class F>
void for_each_window(const PoolPlan& plan, F f) {
  Dims spatial;
  for (const PlacedAxis& axis : plan.axes) spatial.push_back(axis.output);
  std::vector<Taps> taps(plan.axes.size());
  std::size_t output = 0;
  for (std::int64_t plane = 0; plane < plan.planes; ++plane) {
    for (IndexCounter at(spatial); at.valid(); at.next()) {
      for (std::size_t i = 0; i < taps.size(); ++i) taps[i] = taps_at(plan.axes[i], at.index()[i]);
      f(output++, plane, std::span<const Taps>(taps));
    }
  }
}

// The elements under a window, in order.
template <class A>
void collect_window(const PoolPlan& plan, std::span<const A> x, std::int64_t plane, std::span<const Taps> taps,
                    std::vector<A>& values) {
  values.clear();
  const A* data = x.data() + plane * input_count(plan.axes);
  auto take = [&](std::int64_t position) { values.push_back(data[position]); };
  visit_window(std::span<const PlacedAxis>(plan.axes), taps, 0, take);
}

// Mean of each window. With `include_pad` the padding counts as zeros, but not what a ceil_mode window covers beyond
// it. A window without elements gives 0.
template <class A>
std::vector<A> average_pool(const PoolPlan& plan, std::span<const A> x, bool include_pad) {
  std::vector<A> result(static_cast<std::size_t>(element_count(plan.out)));
  std::vector<A> values;
  for_each_window(plan, [&](std::size_t output, std::int64_t plane, std::span<const Taps> taps) {
    collect_window(plan, x, plane, taps, values);
    if (values.empty()) return;
    const auto count = static_cast<std::int64_t>(values.size());
    double divisor = include_pad ? 1 : static_cast<double>(count);
    for (const Taps& tap : taps) divisor *= include_pad ? static_cast<double>(tap.counted) : 1.0;
    const A sum = pairwise_sum<A>(count, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
    result[output] = sum / static_cast<A>(divisor);
  });
  return result;
}

}  // namespace finity
