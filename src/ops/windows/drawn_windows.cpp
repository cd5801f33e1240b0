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

// Codes of both signs; scales near the size that results have, zero points, and a bias in the products' scale.
bool draw_qlinear_conv(DrawCall& call) {
  const std::int64_t group = fitting_groups(call), out = call.between(1, 3) * group;
  const Dims kernel = with_kernel(call, {out, call.channels() / group});
  const DType weights = call.chance(50) ? DType::int8 : DType::uint8, result = call.dtype();
  const bool per_channel = call.chance(30);
  const auto scale = [&](const Dims& dims) { call.add(call.draw(DType::float32, dims, ValueClass::positive), 85); };
  const auto zero = [&](DType code, Dims dims) {
    call.add(call.draw(code, std::move(dims), ValueClass::positive), 85);
  };
  scale({});
  zero(call.dtype(), {});
  call.add(call.draw(weights, kernel, ValueClass::ends), 80);
  scale(per_channel ? Dims{out} : Dims{});
  if (per_channel && weights == DType::int8) {
    call.add(from_elements<std::int64_t>(weights, {out}, DrawCall::Ints(static_cast<std::size_t>(out))), 85);
  } else {
    zero(weights, per_channel ? Dims{out} : Dims{});
  }
  // Sums of products of codes are large.
  call.add(from_elements<double>(DType::float32, {}, std::vector<double>{static_cast<double>(call.between(3, 600))}),
           85);
  zero(result, {});
  if (call.chance(40)) call.add(call.draw(DType::int32, {out}, ValueClass::integers), 90);
  return true;
}

// Blocks that fill an image of one or two axes.
bool draw_col2im(DrawCall& call) {
  if (call.rank() != 3 || call.length(1) == 0 || call.length(2) == 0) return false;
  const std::int64_t rows = call.length(2) % 2 == 0 ? 2 : 1, columns = call.length(2) / rows;
  const std::int64_t height = call.length(1) % 2 == 0 && call.chance(50) ? 2 : 1;
  const std::int64_t rest = call.length(1) / height, width = rest % 3 == 0 ? 3 : 1;
  DrawCall::Ints dilations, strides, pads;
  for (int i = 0; i < 2; ++i) {
    dilations.push_back(call.between(1, 2));
    strides.push_back(call.between(1, 2));
  }
  const std::int64_t high = (rows - 1) * strides[0] + dilations[0] * (height - 1) + 1,
                     wide = (columns - 1) * strides[1] + dilations[1] * (width - 1) + 1;
  const std::int64_t top = call.between(0, high > 1 ? 1 : 0), right = call.between(0, wide > 1 ? 1 : 0);
  call.attrs().set("dilations", dilations);
  call.attrs().set("strides", strides);
  call.attrs().set("pads", DrawCall::Ints{top, 0, 0, right});
  call.add_ints({high - top, wide - right});
  call.add_ints({height, width});
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
