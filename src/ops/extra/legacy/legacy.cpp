// Experimental ops of ONNX 1.0 to 1.4 that opset 10 removed. Old exporters used them and the files are still around.
#include <cmath>

#include "domain/movement.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/function_range.h"
#include "ops/shared/relation_rules.h"
#include "ops/table/build_call.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";
constexpr int kLastOpset = 9;

template <class F>
void eval_float(EvalCall& call, F f) {
  const Tensor& x = call.in(0);
  if (!is_float(x.dtype())) throw Error("expected a float tensor, got " + std::string(name(x.dtype())));
  std::vector<double> values = elements<double>(x);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(values[i], i);
  call.out(0, from_elements<double>(x.dtype(), x.dims(), values));
}

void eval_affine(EvalCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  eval_float(call, [=](double x, std::size_t) { return alpha * x + beta; });
}

void eval_scale(EvalCall& call) {
  eval_float(call, [scale = call.real("scale")](double x, std::size_t) { return scale * x; });
}

// ---- images ----------------------------------------------------------------

void infer_image(InferCall& call) {
  require_rank(call, 0, 4);
  infer_same_shape(call);
}

void eval_image_scaler(EvalCall& call) {
  const Tensor& x = call.in(0);
  require_rank(x, "input", 4);
  const AxisView channels(x.dims(), 1);
  std::vector<double> bias = call.reals("bias");
  if (bias.empty()) bias.resize(static_cast<std::size_t>(channels.length), 0.0);
  if (static_cast<std::int64_t>(bias.size()) != channels.length) {
    throw Error("attribute 'bias' has " + std::to_string(bias.size()) + " values for " +
                std::to_string(channels.length) + " channels");
  }
  const double scale = call.real("scale");
  const auto plane = static_cast<std::size_t>(channels.inner);
  eval_float(call, [&](double value, std::size_t i) { return scale * value + bias[i / plane % bias.size()]; });
}

// Where the picture that Crop keeps begins and how large it is.
struct Window {
  std::int64_t top = 0, left = 0;
  Dim height = {}, width = {};
};

Dim kept(const Dim& size, std::int64_t before, std::int64_t after) {
  if (!size.known()) return before + after == 0 ? size : Dim{};
  if (before + after > size.size) {
    throw Error("attribute 'border' takes " + std::to_string(before + after) + " of " + std::to_string(size.size));
  }
  return Dim::of(size.size - before - after);
}

Dim kept_of_size(const Dim& size, std::int64_t before, std::int64_t wanted) {
  if (size.known() && before + wanted > size.size) {
    throw Error("attribute 'scale' asks for " + std::to_string(wanted) + " of " + std::to_string(size.size) +
                " after a border of " + std::to_string(before));
  }
  return Dim::of(wanted);
}

// `border` is left, top, right, bottom; with `scale` (height, width) only the first two count.
Window crop_window(const Call& call, const Dim& height, const Dim& width) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  std::vector<std::int64_t> border = call.integers("border");
  if (border.empty()) border.resize(4, 0);
  const std::vector<std::int64_t> scale = call.integers("scale");
  if (border.size() != 4)
    throw Error("attribute 'border' has " + std::to_string(border.size()) + " values, expected 4");
  if (!scale.empty() && scale.size() != 2) throw Error("attribute 'scale' does not have 2 values");
  for (const std::int64_t value : border) {
    if (value < 0 || value > kLargest) throw Error("attribute 'border' has the value " + std::to_string(value));
  }
  for (const std::int64_t value : scale) {
    if (value < 0 || value > kLargest) throw Error("attribute 'scale' has the value " + std::to_string(value));
  }
  Window window{.top = border[1], .left = border[0]};
  window.height = scale.empty() ? kept(height, border[1], border[3]) : kept_of_size(height, border[1], scale[0]);
  window.width = scale.empty() ? kept(width, border[0], border[2]) : kept_of_size(width, border[0], scale[1]);
  return window;
}

void infer_crop(InferCall& call) {
  require_rank(call, 0, 4);
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  const Window window = crop_window(call, shape[2], shape[3]);
  shape[2] = window.height;
  shape[3] = window.width;
  call.set_shape(0, std::move(shape));
}

void eval_crop(EvalCall& call) {
  const Tensor& x = call.in(0);
  require_rank(x, "input", 4);
  const Window window = crop_window(call, Dim::of(x.dim(2)), Dim::of(x.dim(3)));
  const Dims dims = {x.dim(0), x.dim(1), window.height.size, window.width.size};
  std::vector<std::int64_t> positions;
  for (std::int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
    for (std::int64_t row = 0; row < window.height.size; ++row) {
      const std::int64_t first = (plane * x.dim(2) + window.top + row) * x.dim(3) + window.left;
      for (std::int64_t column = 0; column < window.width.size; ++column) positions.push_back(first + column);
    }
  }
  call.out(0, gather_elements(x, dims, positions));
}

// ---- GivenTensorFill -------------------------------------------------------

// The shape is the attribute, or the elements of the input, or the input's own; the last two with `extra_shape` behind.
Shape filled_shape(const Call& call, const Shape& own, const Shape& elements) {
  Shape shape;
  if (call.has_attr("shape")) return Type::tensor_of(DType::undefined, call.integers("shape")).shape;
  if (!call.has_input(0)) throw Error("neither attribute 'shape' nor an input gives the shape");
  shape = call.integer("input_as_shape") != 0 ? elements : own;
  for (const std::int64_t size : call.integers("extra_shape")) {
    if (size < 0) throw Error("attribute 'extra_shape' has the value " + std::to_string(size));
    shape.push_back(Dim::of(size));
  }
  return shape;
}

void infer_given_tensor_fill(InferCall& call) {
  if (!call.has_input(0)) call.set_dtype(0, DType::float32);
  const bool by_value = call.integer("input_as_shape") != 0;
  if (!call.has_attr("shape") && (by_value || !call.ranked(0))) return;
  call.set_shape(0, filled_shape(call, call.shape(0), {}));
}

void eval_given_tensor_fill(EvalCall& call) {
  DType dtype = DType::float32;
  Shape own, sizes;
  if (call.has_input(0)) {
    dtype = call.in(0).dtype();
    own = Type::tensor_of(dtype, call.in(0).dims()).shape;
    if (call.integer("input_as_shape") != 0) {
      for (const std::int64_t size : elements<std::int64_t>(call.in(0))) sizes.push_back(Dim::of(size));
    }
  }
  const auto dims = Type::tensor(dtype, filled_shape(call, own, sizes)).dims();
  const std::vector<double> values = call.reals("values");
  if (!dims || element_count(*dims) != static_cast<std::int64_t>(values.size())) {
    throw Error("attribute 'values' has " + std::to_string(values.size()) + " values, which do not fill the shape");
  }
  call.out(0, from_elements<double>(dtype, *dims, values));
}

// ---- ranges ----------------------------------------------------------------

void range_affine(RangeCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  range_mapped(call, alpha >= 0 ? Monotone::increasing : Monotone::no, [&](const Range& x, DType dtype) {
    return affine_of(dtype, x, attribute_range(dtype, alpha), attribute_range(dtype, beta));
  });
}

void range_scale(RangeCall& call) {
  const double scale = call.real("scale");
  range_mapped(call, scale >= 0 ? Monotone::increasing : Monotone::no,
               [&](const Range& x, DType dtype) { return multiply(dtype, x, attribute_range(dtype, scale)); });
}

// alpha * F(beta * x)
template <Range (*F)(DType, const Range&, double, double, int)>
void range_scaled(RangeCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  range_mapped(call, Monotone::no, [&](const Range& x, DType dtype) { return F(dtype, x, alpha, beta, call.ulps()); });
}

void range_image_scaler(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const std::vector<double> biases = call.reals("bias");
  Range bias = biases.empty() ? point(0) : Range{};
  for (const double value : biases) bias = join(bias, attribute_range(dtype, value));
  const Range scale = attribute_range(dtype, call.real("scale"));
  range_mapped(call, Monotone::no, [&](const Range& x, DType) { return affine_of(dtype, x, scale, bias); });
}

void range_crop(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto dim = [](std::int64_t size) { return size >= 0 ? Dim::of(size) : Dim{}; };
  if (!x.ranked || x.rank() != 4) return call.out(0, x.hull());
  const Window window = crop_window(call, dim(x.sizes[2]), dim(x.sizes[3]));
  if (!window.height.known() || !window.width.known()) return call.out(0, x.hull());
  const AbsTensor rows = sliced(x, 2, window.top, window.height.size, call.symbols());
  call.out(0, sliced(rows, 3, window.left, window.width.size, call.symbols()));
}

void range_given_tensor_fill(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  Range range;
  for (const double value : call.reals("values")) {
    const double stored = is_float(dtype) ? round_to(dtype, value) : std::trunc(value);
    range = join(range, is_float(dtype) ? point(stored) : from_bounds(dtype, stored, stored));
  }
  call.out(0, range);
}

// ---- gradients -------------------------------------------------------------

// Zeros where something was cut off.
void crop_gradient(BuildCall& call) {
  const std::optional<Dims> in = call.dims(call.in(0)), out = call.dims(call.out(0));
  if (!in || !out) throw Unsupported("the gradient of Crop needs sizes that are known");
  const Window window = crop_window(call, Dim::of((*in)[2]), Dim::of((*in)[3]));
  const std::int64_t below = (*in)[2] - window.top - (*out)[2], right = (*in)[3] - window.left - (*out)[3];
  call.give(0, call.add("Pad", {call.grad(0), call.ints({0, 0, window.top, window.left, 0, 0, below, right})}));
}

const OpDef kOps[] = {
    {.identity = {.name = "Affine",
                  .until = kLastOpset,
                  .summary = "alpha * x + beta",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 1.0; beta: float = 0.0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_affine},
     .analysis = {.range = range_affine, .vjp = gradients<"X: Mul(alpha, dY)">},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Scale",
                  .until = kLastOpset,
                  .summary = "x times a constant",
                  .signature = kFloatToFloat,
                  .attrs = "scale: float = 1.0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_scale},
     .analysis = {.range = range_scale, .vjp = gradients<"X: Mul(scale, dY)">},
     .traits = {.elementwise = true}},
    {.identity = {.name = "ScaledTanh",
                  .until = kLastOpset,
                  .summary = "alpha * tanh(beta * x)",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float; beta: float"},
     .meaning = {.infer = infer_same_shape, .body = formula<"Mul(alpha, Tanh(Mul(beta, X)))">},
     .analysis = {.range = range_scaled<scaled_tanh_of>},
     .traits = {.elementwise = true}},
    {.identity = {.name = "ParametricSoftplus",
                  .until = kLastOpset,
                  .summary = "alpha * log(1 + exp(beta * x))",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float; beta: float"},
     .meaning = {.infer = infer_same_shape, .body = formula<"Mul(alpha, Softplus(Mul(beta, X)))">},
     .analysis = {.range = range_scaled<scaled_softplus_of>},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "ImageScaler",
                  .until = kLastOpset,
                  .summary = "pixels times a constant, plus a bias per channel",
                  .signature = kFloatToFloat,
                  .attrs = "bias: floats; scale: float = 1.0"},
     .meaning = {.infer = infer_image, .eval = eval_image_scaler},
     .analysis = {.range = range_image_scaler, .vjp = gradients<"X: Mul(scale, dY)">}},
    {.identity = {.name = "Crop",
                  .until = kLastOpset,
                  .summary = "pictures without their border, or a part of a given size",
                  .signature = kFloatToFloat,
                  .attrs = "border: ints; scale: ints"},
     .meaning = {.infer = infer_crop, .eval = eval_crop},
     .analysis = {.range = range_crop, .vjp = crop_gradient},
     .traits = {.exact = true}},
    {.identity = {.name = "GivenTensorFill",
                  .until = kLastOpset,
                  .summary = "a tensor with the given elements",
                  .signature = "(shape?: T) -> (X: T) where T: float | int32 | int64",
                  .attrs = "values: floats; shape: ints; input_as_shape: int = 0; extra_shape: ints"},
     .meaning = {.infer = infer_given_tensor_fill, .eval = eval_given_tensor_fill},
     .analysis = {.range = range_given_tensor_fill, .vjp = flat},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> legacy_ops() { return kOps; }

}  // namespace finity
