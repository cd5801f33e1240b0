// Sliding windows: where the taps of a convolution or pool fall. The attributes
// kernel_shape, strides, dilations, pads, auto_pad and ceil_mode mean the same for
// all of them, so sizes are computed here once, for type inference (Dim, perhaps
// symbolic) and for evaluation.
//
//   extent = (kernel - 1) * dilation + 1
//   output = floor((input + pad_begin + pad_end - extent) / stride) + 1
//   SAME   : output = ceil(input / stride), the pads are what that needs, at least 0
//   ceil   : ceil instead of floor, without a last window that would start in the end padding
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/table/call.h"

namespace finity {

enum class AutoPad : std::uint8_t { notset, same_upper, same_lower, valid };
inline bool is_same(AutoPad mode) { return mode == AutoPad::same_upper || mode == AutoPad::same_lower; }

// One spatial axis as the attributes give it; a kernel of -1 is not known (yet).
struct WindowAxis {
  std::int64_t kernel = -1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;

  std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

struct Window {
  std::vector<WindowAxis> axes = {};
  AutoPad auto_pad = AutoPad::notset;
  bool ceil_mode = false;
};

// From the node's attributes. `weights` are the spatial dimensions of the weight tensor where the op has one: the
// kernel when kernel_shape is absent, and checked against it otherwise. An explicit auto_pad overrides pads.
Window read_window(const Call& call, std::size_t spatial_rank, std::span<const Dim> weights = {});

// Into how many groups a convolution splits its channels. Throws Error when it is below 1.
std::int64_t group_count(const Call& call);

// An attribute that has one positive number per spatial axis; 1 everywhere when absent.
std::vector<std::int64_t> per_axis(const Call& call, std::string_view name, std::size_t spatial_rank);

// The axis laid over an input of known size, its pads final.
struct PlacedAxis : WindowAxis {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

PlacedAxis place(const Window& window, std::size_t axis, std::int64_t input);
std::vector<PlacedAxis> place(const Window& window, std::span<const std::int64_t> inputs);
// What becomes of a window that is larger than its padded input: kernels of convolutions refuse it, those of pools give
// a tensor without elements when a size is known only when they run.
enum class TooLarge : std::uint8_t { refused, no_result };
// Keeps the symbol where the window does not change the size.
Dim output_dim(const Window& window, std::size_t axis, const Dim& input, TooLarge too_large);

// The taps of one window along one axis.
struct Taps {
  std::int64_t first = 0;    // input index of the first tap that is inside the input
  std::int64_t count = 0;    // how many are inside
  std::int64_t counted = 0;  // how many are inside the input with its padding
};
Taps taps_at(const PlacedAxis& axis, std::int64_t output);

// The outputs [begin, end) for which one tap falls inside the input.
struct OutputRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
OutputRange outputs_of_tap(const PlacedAxis& axis, std::int64_t tap);

// Row-major number of kernel positions, input elements and output elements.
std::int64_t kernel_count(std::span<const PlacedAxis> axes);
std::int64_t input_count(std::span<const PlacedAxis> axes);
std::int64_t output_count(std::span<const PlacedAxis> axes);

}  // namespace finity
