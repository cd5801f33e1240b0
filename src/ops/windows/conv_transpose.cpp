// Ops that add windows into an image: the transpose of a convolution, and Col2Im.
// Input element i of an axis reaches output i * stride - pad_begin + tap * dilation,
// which is a window over the *output*: PlacedAxis with input and output exchanged.
#include <algorithm>
#include <complex>
#include <optional>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/linear/linear_gradient.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/windows/conv_range.h"
#include "ops/windows/direct_convolution.h"
#include "ops/windows/drawn_windows.h"
#include "ops/windows/window.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// image[i * stride - pad + tap * dilation] += factor * windows[i] over all axes from `depth` on. The axes are those of
// a window over the image, so their `output` counts the windows.
template <class A>
void scatter_tap(std::span<const PlacedAxis> axes, std::span<const std::int64_t> tap, std::size_t depth, A* image,
                 const A* windows, A factor) {
  const PlacedAxis& axis = axes[depth];
  const auto [begin, end] = outputs_of_tap(axis, tap[depth]);
  const std::int64_t start = begin * axis.stride - axis.pad_begin + tap[depth] * axis.dilation;
  if (depth + 1 == axes.size()) {
    if (axis.stride == 1) add_scaled(image + start, windows + begin, factor, end - begin);
    else add_scaled(image + start, axis.stride, windows + begin, 1, factor, end - begin);
    return;
  }
  const std::int64_t image_step = input_count(axes.subspan(depth + 1));
  const std::int64_t window_step = output_count(axes.subspan(depth + 1));
  for (std::int64_t w = begin; w < end; ++w) {
    const std::int64_t i = start + (w - begin) * axis.stride;
    scatter_tap(axes, tap, depth + 1, image + i * image_step, windows + w * window_step, factor);
  }
}

std::vector<std::vector<std::int64_t>> list_taps(std::span<const PlacedAxis> axes) {
  Dims kernel;
  for (const PlacedAxis& axis : axes) kernel.push_back(axis.kernel);
  std::vector<std::vector<std::int64_t>> taps;
  for (IndexCounter at(kernel); at.valid(); at.next()) taps.push_back(at.index());
  return taps;
}

// ---- ConvTranspose -----------------------------------------------------------

// The attributes that fix the output's size beside the window's.
struct OutputSpec {
  std::vector<std::int64_t> padding = {};  // output_padding
  std::vector<std::int64_t> shape = {};    // output_shape, empty when absent
};

OutputSpec read_output_spec(const Call& call, std::size_t rank) {
  OutputSpec spec{call.integers("output_padding"), call.integers("output_shape")};
  if (spec.padding.empty()) spec.padding.assign(rank, 0);
  // Some exporters wrote batch and channels too.
  if (spec.shape.size() == rank + 2) spec.shape.erase(spec.shape.begin(), spec.shape.begin() + 2);
  if (spec.padding.size() != rank) throw Error("attribute 'output_padding' does not have one element per axis");
  if (!spec.shape.empty() && spec.shape.size() != rank) {
    throw Error("attribute 'output_shape' does not have one element per axis");
  }
  const auto bad = [](std::int64_t size) { return size < 0 || size > (std::int64_t{1} << 30); };
  if (std::ranges::any_of(spec.padding, bad)) throw Error("attribute 'output_padding' is out of range");
  if (std::ranges::any_of(spec.shape, bad)) throw Error("attribute 'output_shape' is out of range");
  return spec;
}

// One axis as a window over the output: `input` is the image (ConvTranspose's output), `output` its own input.
PlacedAxis place_transposed(const Window& window, const OutputSpec& spec, std::size_t i, std::int64_t size) {
  PlacedAxis axis{window.axes[i], 0, size};
  if (size > (std::int64_t{1} << 31)) throw Error("a spatial dimension is too large");
  const std::int64_t full = axis.stride * (size - 1) + axis.extent() + spec.padding[i];
  if (spec.shape.empty() && !is_same(window.auto_pad)) {
    axis.input = size == 0 ? 0 : full - axis.pad_begin - axis.pad_end;
    if (axis.input < 0) throw Error("the pads are larger than the output");
    return axis;
  }
  axis.input = spec.shape.empty() ? size * axis.stride : spec.shape[i];
  const std::int64_t total = std::max<std::int64_t>(full - axis.input, 0);
  axis.pad_begin = window.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2;
  axis.pad_end = total - axis.pad_begin;
  return axis;
}

Dim transposed_dim(const Window& window, const OutputSpec& spec, std::size_t i, const Dim& size) {
  if (!spec.shape.empty()) return Dim::of(spec.shape[i]);
  if (is_same(window.auto_pad) && window.axes[i].stride == 1) return size;
  const std::int64_t least = std::min<std::int64_t>(size.least_size(), 1);
  if (window.axes[i].kernel < 0 && !is_same(window.auto_pad)) return Dim::between(least, Dim::kNoMost);
  if (!size.known()) return Dim::between(least, place_transposed(window, spec, i, size.most_size()).input);
  return Dim::of(place_transposed(window, spec, i, size.size).input);
}

// [N, C, ...] and [C, M / group, ...] -> [N, M, ...]
Shape conv_transpose_shape(const Call& call, const Shape& x, const Shape& w) {
  if (x.size() < 3) throw Error("input X has rank " + std::to_string(x.size()) + ", expected at least 3");
  if (w.size() != x.size()) throw Error("inputs X and W differ in rank");
  const std::int64_t groups = group_count(call);
  if (x[1].known() && w[0].known() && x[1].size != w[0].size) {
    throw Error("input X has " + std::to_string(x[1].size) + " channels, W " + std::to_string(w[0].size));
  }
  if (x[1].known() && x[1].size % groups != 0) {
    throw Error(std::to_string(x[1].size) + " channels are not divisible by " + std::to_string(groups) + " groups");
  }
  const Window window = read_window(call, x.size() - 2, std::span(w).subspan(2));
  const OutputSpec spec = read_output_spec(call, x.size() - 2);
  Shape out{x[0], groups == 1 ? w[1] : Dim{}};
  if (groups > 1 && w[1].known()) out[1] = product(Shape{w[1], Dim::of(groups)});
  for (std::size_t i = 0; i + 2 < x.size(); ++i) out.push_back(transposed_dim(window, spec, i, x[i + 2]));
  return out;
}

void infer_conv_transpose(InferCall& call) {
  if (call.has_input(2)) require_rank(call, 2, 1);
  if (!call.ranked(0) && !call.ranked(1)) return;
  // They have the same rank, so one of them is enough to know it.
  const Shape x = call.ranked(0) ? call.shape(0) : Shape(call.rank(1));
  const Shape w = call.ranked(1) ? call.shape(1) : Shape(call.rank(0));
  Shape out = conv_transpose_shape(call, x, w);
  check_bias(call, 2, out[1]);
  call.set_shape(0, std::move(out));
}

struct TransposePlan {
  Dims out = {};
  std::int64_t groups = 1;
  std::int64_t in_channels = 1;   // of one group
  std::int64_t out_channels = 1;  // of one group
  std::vector<PlacedAxis> axes = {};
};

TransposePlan plan_conv_transpose(const Call& call, const Dims& x, const Dims& w) {
  const Shape x_shape = Type::tensor_of(DType::undefined, x).shape;
  const Shape w_shape = Type::tensor_of(DType::undefined, w).shape;
  TransposePlan plan;
  plan.out = Type::tensor(DType::undefined, conv_transpose_shape(call, x_shape, w_shape)).dims().value();
  plan.groups = group_count(call);
  plan.in_channels = x[1] / plan.groups;
  plan.out_channels = w[1];
  const Window window = read_window(call, x.size() - 2, std::span(w_shape).subspan(2));
  const OutputSpec spec = read_output_spec(call, x.size() - 2);
  for (std::size_t i = 0; i + 2 < x.size(); ++i) plan.axes.push_back(place_transposed(window, spec, i, x[i + 2]));
  return plan;
}

template <class A>
std::vector<A> conv_transpose(const TransposePlan& plan, std::span<const A> x, std::span<const A> w) {
  std::vector<A> out(result_count(plan.out));
  const std::vector<std::vector<std::int64_t>> taps = list_taps(plan.axes);
  const std::int64_t in_plane = output_count(plan.axes), out_plane = input_count(plan.axes);
  const std::int64_t channels = plan.groups * plan.out_channels;
  for (std::int64_t row = 0; row < plan.out[0] * channels && out_plane > 0; ++row) {
    const std::int64_t image = row / channels, m = row % channels, group = m / plan.out_channels;
    for (std::int64_t k = 0; k < plan.in_channels; ++k) {
      const std::int64_t c = group * plan.in_channels + k;
      const A* from = x.data() + (image * plan.groups * plan.in_channels + c) * in_plane;
      const A* weight = w.data() + (c * plan.out_channels + m % plan.out_channels) * kernel_count(plan.axes);
      for (const std::vector<std::int64_t>& tap : taps) {
        scatter_tap(std::span<const PlacedAxis>(plan.axes), tap, 0, out.data() + row * out_plane, from, *weight++);
      }
    }
  }
  return out;
}

template <class A>
void add_channel_bias(const TransposePlan& plan, std::vector<A>& values, std::span<const A> bias) {
  if (static_cast<std::int64_t>(bias.size()) != plan.out[1]) {
    throw Error("input B has " + std::to_string(bias.size()) + " elements for " + std::to_string(plan.out[1]) +
                " output channels");
  }
  const auto plane = static_cast<std::size_t>(input_count(plan.axes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += bias[i / plane % bias.size()];
}

void eval_conv_transpose(EvalCall& call) {
  const Tensor& x = call.in(0);
  const TransposePlan plan = plan_conv_transpose(call, x.dims(), call.in(1).dims());
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             std::vector<A> values = conv_transpose<A>(plan, elements<A>(x), elements<A>(call.in(1)));
             if (call.has_input(2)) add_channel_bias<A>(plan, values, elements<A>(call.in(2)));
             return from_elements<A>(x.dtype(), plan.out, values);
           }));
}

// The convolution that it is the transpose of: its attributes, with the pads as they turn out.
Attrs transposed_attrs(const BuildCall& call) {
  const std::size_t spatial = call.rank(call.in(0)) - 2;
  const Shape& x = call.in_type(0).shape;
  const std::optional<Dims> w = call.dims(call.in(1));
  const OutputSpec spec = read_output_spec(call, spatial);
  const Shape kernel = w ? Type::tensor_of(DType::undefined, *w).shape : Shape(spatial + 2);
  const Window window = read_window(call, spatial, std::span(kernel).subspan(2));
  const bool plain = spec.shape.empty() && !is_same(window.auto_pad);
  std::vector<std::int64_t> pads(2 * spatial);
  for (std::size_t i = 0; i < spatial; ++i) {
    PlacedAxis axis{window.axes[i], 0, 0};
    if (!plain) {
      if (!w || !x[i + 2].known()) throw Unsupported("its derivative needs sizes that are not known");
      axis = place_transposed(window, spec, i, x[i + 2].size);
      // Beyond the last window there may be room for one that the op does not have.
      const std::int64_t full = axis.stride * (axis.output - 1) + axis.extent();
      if (axis.input + axis.pad_begin >= full + axis.stride) throw Unsupported("its output is larger than its windows");
      axis.pad_end = std::max<std::int64_t>(full - axis.input - axis.pad_begin, 0);
    } else if (spec.padding[i] >= axis.stride) {
      throw Unsupported("its derivative is not known for an output_padding of a stride or more");
    }
    pads[i] = axis.pad_begin;
    pads[spatial + i] = axis.pad_end;
  }
  Attrs attrs;
  for (const std::string_view name : {"strides", "dilations", "group"}) {
    if (const Attr* attr = call.attrs().find(name)) attrs.set(std::string(name), *attr);
  }
  attrs.set("pads", std::move(pads));
  return attrs;
}

// The input's gradient is that convolution of the result's; the weights' is that of its weights, whose result is X.
void conv_transpose_gradient(BuildCall& call) {
  const ValueId x = call.in(0), w = call.in(1), gradient = call.grad(0);
  const Attrs attrs = transposed_attrs(call);
  if (call.wanted(0)) call.give(0, call.add("Conv", {gradient, w}, attrs));
  if (call.wanted(1)) call.give(1, call.add("finity:ConvWeightGradient", {x, gradient, w}, attrs));
  give_bias_gradient(call, 2);
}

// ---- Col2Im ------------------------------------------------------------------

// The window over the image; block_shape is the kernel.
std::vector<PlacedAxis> place_blocks(const Call& call, const Dims& image, const Dims& block) {
  if (image.size() != block.size() || image.empty()) {
    throw Error("image_shape has " + std::to_string(image.size()) + " elements, block_shape " +
                std::to_string(block.size()));
  }
  Shape kernel;
  for (const std::int64_t size : block) kernel.push_back(Dim::of(std::max<std::int64_t>(size, 0)));
  return place(read_window(call, image.size(), kernel), image);
}

// [N, C * block, L] -> [N, C, image...]
Shape col2im_shape(const Shape& input, const Shape& image, const std::optional<Dims>& block) {
  if (input.size() != 3) throw Error("input has rank " + std::to_string(input.size()) + ", expected 3");
  Shape out{input[0], Dim{}};
  if (block && input[1].known()) {
    const std::int64_t count = element_count(*block);
    if (count == 0 || input[1].size % count != 0) {
      throw Error("dimension 1 of input, " + std::to_string(input[1].size) + ", is not a multiple of the block size " +
                  std::to_string(count));
    }
    out[1] = Dim::of(input[1].size / count);
  }
  out.insert(out.end(), image.begin(), image.end());
  return out;
}

void infer_col2im(InferCall& call) {
  const std::optional<Shape> image = call.shape_value(1);
  if (call.ranked(0) && image) call.set_shape(0, col2im_shape(call.shape(0), *image, call.ints(2)));
}

// One plane of blocks [tap, block] into one image.
template <class A>
std::vector<A> add_blocks(std::span<const PlacedAxis> axes, std::span<const A> columns, std::int64_t planes) {
  const std::int64_t pixels = input_count(axes), blocks = output_count(axes);
  const std::vector<std::vector<std::int64_t>> taps = list_taps(axes);
  std::vector<A> image(result_count(Dims{planes, pixels}));
  const A* from = columns.data();
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (const std::vector<std::int64_t>& tap : taps) {
      scatter_tap(axes, tap, 0, image.data() + plane * pixels, from, A{1});
      from += blocks;
    }
  }
  return image;
}

// Anything that can be added: floats as usual, integers wrap, bools are "any of", complex numbers in float64.
template <class F>
Tensor with_addable_type(DType dtype, F&& f) {
  if (is_complex(dtype)) return f.template operator()<std::complex<double>>();
  if (dtype == DType::boolean) return f.template operator()<double>();
  return with_dot_type(dtype, f);
}

void eval_col2im(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Dims image = elements<std::int64_t>(call.in(1));
  const Dims block = elements<std::int64_t>(call.in(2));
  const std::vector<PlacedAxis> axes = place_blocks(call, image, block);
  const auto shape = [](const Dims& dims) { return Type::tensor_of(DType::undefined, dims).shape; };
  const Dims out = Type::tensor(DType::undefined, col2im_shape(shape(x.dims()), shape(image), block)).dims().value();
  if (x.dim(2) != output_count(axes)) {
    throw Error("dimension 2 of input is " + std::to_string(x.dim(2)) + ", but the image has " +
                std::to_string(output_count(axes)) + " blocks");
  }
  call.out(0, with_addable_type(x.dtype(), [&]<class A>() {
             return from_elements<A>(x.dtype(), out, add_blocks<A>(axes, elements<A>(x), out[0] * out[1]));
           }));
}

const OpDef kOps[] = {
    {.identity =
         {.name = "ConvTranspose",
          .summary = "transpose of a convolution: every input element adds a scaled kernel to the output",
          .signature = "(X: T, W: T, B?: T) -> (Y: T) where T: float",
          .attrs =
              "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; "
              "dilations: ints; pads: ints; group: int = 1; output_padding: ints; output_shape: ints",
          .tf = "Conv2DBackpropInput"},
     .meaning =
         {.infer = infer_conv_transpose,
          .eval = eval_conv_transpose,
          .freedom =
              "products are added by channel, then by kernel position, then the bias, in float32 (float64 for "
              "float64), and rounded once; with output_shape an odd padding is larger at the begin unless SAME_UPPER"},
     .analysis = {.range = range_conv_transpose,
                  .length = length_conv_transpose,
                  .vjp = conv_transpose_gradient,
                  .overflow = "FN204"},
     .traits = {.linear = true},
     .drawing = {.operands = draw_conv_transpose, .often = 1}},
    {.identity = {.name = "Col2Im",
                  .since = 18,
                  .summary = "adds the columns of a matrix of blocks into an image",
                  .signature = "(input: T, image_shape: int64, block_shape: int64) -> (output: T) "
                               "where T: number | bool | complex64 | complex128",
                  .attrs = "dilations: ints; pads: ints; strides: ints"},
     .meaning = {.infer = infer_col2im,
                 .eval = eval_col2im,
                 .freedom = "blocks are added in order of kernel position, in float32 (float64 for float64)"},
     .analysis = {.range = range_col2im, .overflow = "FN204"},
     .drawing = {.operands = draw_col2im}},
};

}  // namespace

std::span<const OpDef> conv_transpose_ops() { return kOps; }

}  // namespace finity
