#include "ops/windows/drawn_windows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tensor/convert.h"

namespace finity {

namespace {

// A group count that divides the channels.
std::int64_t fitting_groups(DrawCall& call) {
  const std::int64_t group = call.integer("group", 1);
  if (group >= 1 && call.channels() % group == 0) return group;
  call.attrs().set("group", std::int64_t{1});
  return 1;
}

// The weights' shape behind its first two axes; kernel_shape follows from it and may be left out.
Dims with_kernel(DrawCall& call, Dims dims) {
  DrawCall::Ints kernel = call.integers("kernel_shape");
  while (static_cast<std::int64_t>(kernel.size()) < call.spatial()) kernel.push_back(call.between(1, 3));
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  if (call.chance(40)) call.drop("kernel_shape");
  return dims;
}

}  // namespace

bool draw_conv(DrawCall& call) {
  const std::int64_t group = fitting_groups(call), out = call.between(1, 3) * group;
  call.add_floats(with_kernel(call, {out, call.channels() / group}));
  if (call.chance(50)) call.add_floats({out});
  return true;
}

bool draw_conv_transpose(DrawCall& call) {
  const std::int64_t group = fitting_groups(call), per_group = call.between(1, 3);
  call.add_floats(with_kernel(call, {call.channels(), per_group}));
  if (call.chance(50)) call.add_floats({per_group * group});
  return true;
}

// A window that lies in the margin alone has nothing to take the mean or the largest of.
bool draw_pool(DrawCall& call) {
  const DrawCall::Ints kernel = call.integers("kernel_shape");
  DrawCall::Ints pads = call.integers("pads");
  if (pads.empty() || kernel.empty()) return false;
  for (std::size_t i = 0; i < pads.size(); ++i) pads[i] = std::min(pads[i], kernel[i % kernel.size()] - 1);
  call.attrs().set("pads", std::move(pads));
  return false;
}

// Places in the result, which is at least as large; none twice, for which of two elements wins is not said.
bool draw_unpool(DrawCall& call) {
  DrawCall::Ints places(static_cast<std::size_t>(element_count(call.dims())));
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[call.rng().below(i)]);
  call.add(from_elements<std::int64_t>(DType::int64, call.dims(), places), 50);
  return true;
}

}  // namespace finity
