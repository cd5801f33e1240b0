#include "ops/windows/window.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/shared/shape_values.h"

namespace finity {

namespace {

// Attributes and sizes stay below these, so that the formulas cannot overflow.
constexpr std::int64_t kMaxAttribute = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 60;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

std::string quoted(std::string_view name) { return "attribute '" + std::string(name) + "'"; }

void check_list(std::string_view name, std::span<const std::int64_t> values, std::size_t length, std::int64_t least) {
  if (values.size() != length) {
    throw Error(quoted(name) + " has " + std::to_string(values.size()) + " elements, expected " +
                std::to_string(length));
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kMaxAttribute) throw Error(quoted(name) + " contains " + std::to_string(value));
  }
}

AutoPad auto_pad_of(const Call& call) {
  const std::string mode = call.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER") return AutoPad::same_upper;
  if (mode == "SAME_LOWER") return AutoPad::same_lower;
  return mode == "VALID" ? AutoPad::valid : AutoPad::notset;
}

std::vector<std::int64_t> kernel_sizes(const Call& call, std::size_t rank, std::span<const Dim> weights) {
  std::vector<std::int64_t> kernel = call.integers("kernel_shape");
  if (kernel.empty() && weights.empty()) throw Error("attribute 'kernel_shape' is missing");
  if (!kernel.empty()) check_list("kernel_shape", kernel, rank, 1);
  if (weights.empty()) return kernel;
  if (weights.size() != rank) {
    throw Error("the weights have " + std::to_string(weights.size()) + " spatial dimensions, the input has " +
                std::to_string(rank));
  }
  kernel.resize(rank, -1);
  for (std::size_t i = 0; i < rank; ++i) {
    if (kernel[i] >= 0 && weights[i].known() && kernel[i] != weights[i].size) {
      throw Error("attribute 'kernel_shape' contains " + std::to_string(kernel[i]) + ", the weights have size " +
                  std::to_string(weights[i].size));
    }
    if (weights[i].known()) kernel[i] = weights[i].size;
  }
  if (std::ranges::any_of(kernel, [](std::int64_t size) { return size == 0 || size > kMaxAttribute; })) {
    throw Error("a kernel dimension is 0 or too large");
  }
  return kernel;
}

void split_same_padding(PlacedAxis& axis, AutoPad mode, std::int64_t total) {
  const std::int64_t smaller = total / 2;
  axis.pad_begin = mode == AutoPad::same_upper ? smaller : total - smaller;
  axis.pad_end = total - axis.pad_begin;
}

}  // namespace

std::vector<std::int64_t> per_axis(const Call& call, std::string_view name, std::size_t spatial_rank) {
  std::vector<std::int64_t> values = call.integers(name);
  if (values.empty()) values.assign(spatial_rank, 1);
  check_list(name, values, spatial_rank, 1);
  return values;
}

std::int64_t group_count(const Call& call) {
  const std::int64_t groups = call.integer("group", 1);
  if (groups < 1) throw Error("attribute 'group' is " + std::to_string(groups));
  return groups;
}

Window read_window(const Call& call, std::size_t spatial_rank, std::span<const Dim> weights) {
  const std::vector<std::int64_t> kernel = kernel_sizes(call, spatial_rank, weights);
  const std::vector<std::int64_t> strides = per_axis(call, "strides", spatial_rank);
  const std::vector<std::int64_t> dilations = per_axis(call, "dilations", spatial_rank);
  std::vector<std::int64_t> pads = call.integers("pads");
  const AutoPad mode = auto_pad_of(call);
  if (pads.empty() || mode != AutoPad::notset) pads.assign(2 * spatial_rank, 0);
  check_list("pads", pads, 2 * spatial_rank, 0);
  Window window{.axes = {}, .auto_pad = mode, .ceil_mode = call.integer("ceil_mode", 0) != 0};
  for (std::size_t i = 0; i < spatial_rank; ++i) {
    window.axes.push_back({kernel[i], strides[i], dilations[i], pads[i], pads[spatial_rank + i]});
  }
  return window;
}

PlacedAxis place(const Window& window, std::size_t axis, std::int64_t input) {
  PlacedAxis placed{window.axes[axis], input, 0};
  if (input < 0 || input > kMaxSize) throw Error("a spatial dimension is too large");
  if (is_same(window.auto_pad)) {
    placed.output = ceil_div(input, placed.stride);
    const std::int64_t reach = (placed.output - 1) * placed.stride + placed.extent();
    split_same_padding(placed, window.auto_pad, input == 0 ? 0 : std::max<std::int64_t>(reach - input, 0));
    return placed;
  }
  const std::int64_t room = input + placed.pad_begin + placed.pad_end - placed.extent();
  if (room < 0) {
    if (input == 0) return placed;
    throw Error("a window of extent " + std::to_string(placed.extent()) + " is larger than the padded input of size " +
                std::to_string(room + placed.extent()));
  }
  placed.output = (window.ceil_mode ? ceil_div(room, placed.stride) : room / placed.stride) + 1;
  if (window.ceil_mode && (placed.output - 1) * placed.stride >= input + placed.pad_begin) --placed.output;
  return placed;
}

std::vector<PlacedAxis> place(const Window& window, std::span<const std::int64_t> inputs) {
  std::vector<PlacedAxis> axes;
  for (std::size_t i = 0; i < inputs.size(); ++i) axes.push_back(place(window, i, inputs[i]));
  return axes;
}

namespace {

// How many results there are at least.
std::int64_t fewest(const WindowAxis& spec, const Dim& input, TooLarge too_large) {
  const std::int64_t least = std::min<std::int64_t>(input.least_size(), 1);
  if (too_large == TooLarge::refused ||
      (spec.kernel >= 0 && least > 0 && input.least_size() + spec.pad_begin + spec.pad_end >= spec.extent()))
    return least;
  return 0;
}

}  // namespace

Dim output_dim(const Window& window, std::size_t axis, const Dim& input, TooLarge too_large) {
  const WindowAxis& spec = window.axes[axis];
  if (is_same(window.auto_pad)) {
    if (spec.stride == 1) return input;
    return steps_in(input, spec.stride);
  }
  const std::int64_t least = fewest(spec, input, too_large);
  if (spec.kernel < 0) return Dim::between(least, Dim::kNoMost);
  if (input.known()) return Dim::of(place(window, axis, input.size).output);
  if (spec.stride == 1 && spec.pad_begin + spec.pad_end == spec.extent() - 1) return input;
  const std::int64_t room = input.most_size() + spec.pad_begin + spec.pad_end;
  return Dim::between(least, std::max<std::int64_t>(ceil_div(room, spec.stride), 1));
}

Taps taps_at(const PlacedAxis& axis, std::int64_t output) {
  const std::int64_t start = output * axis.stride - axis.pad_begin;
  const std::int64_t begin = start < 0 ? ceil_div(-start, axis.dilation) : 0;
  const std::int64_t end = std::min(axis.kernel, ceil_div(axis.input - start, axis.dilation));
  const std::int64_t padded_end = std::min(axis.kernel, ceil_div(axis.input + axis.pad_end - start, axis.dilation));
  return {start + begin * axis.dilation, std::max<std::int64_t>(end - begin, 0), padded_end};
}

OutputRange outputs_of_tap(const PlacedAxis& axis, std::int64_t tap) {
  const std::int64_t shift = axis.pad_begin - tap * axis.dilation;  // the input index is output * stride - shift
  const std::int64_t begin = std::max<std::int64_t>(ceil_div(shift, axis.stride), 0);
  const std::int64_t end = std::min(axis.output, ceil_div(axis.input + shift, axis.stride));
  return {begin, std::max(begin, end)};
}

namespace {

std::int64_t product_of(std::span<const PlacedAxis> axes, std::int64_t PlacedAxis::*size) {
  std::int64_t count = 1;
  for (const PlacedAxis& axis : axes) {
    if (__builtin_mul_overflow(count, axis.*size, &count)) throw Error("too many elements");
  }
  return count;
}

}  // namespace

std::int64_t kernel_count(std::span<const PlacedAxis> axes) { return product_of(axes, &PlacedAxis::kernel); }
std::int64_t input_count(std::span<const PlacedAxis> axes) { return product_of(axes, &PlacedAxis::input); }
std::int64_t output_count(std::span<const PlacedAxis> axes) { return product_of(axes, &PlacedAxis::output); }

}  // namespace finity
