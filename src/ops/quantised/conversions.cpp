// Conversions between floats and linearly quantized numbers.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise/cast.h"
#include "ops/quantised/quantised_gradient.h"
#include "ops/quantised/scale_and_zero.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

DType dtype_attr(const Call& call, std::string_view name) {
  const std::int64_t code = call.integer(name, 0);
  if (code == 0) return DType::undefined;
  const auto dtype = dtype_from_code(code);
  if (!dtype) throw Error("attribute '" + std::string(name) + "' is " + std::to_string(code));
  return *dtype;
}

ScaleLayout layout_of(const EvalCall& call) {
  const Tensor& scale = call.in(1);
  if (call.has_input(2) && call.in(2).dims() != scale.dims() && call.in(2).size() != 1) {
    throw Error("the scale has shape " + to_string(scale.dims()) + ", the zero point " + to_string(call.in(2).dims()));
  }
  return {call.in(0).dims(), scale.dims(), call.integer("axis", 1), call.integer("block_size", 0)};
}

// A zero point per scale.
std::vector<double> zero_points(const EvalCall& call) {
  const auto count = static_cast<std::size_t>(call.in(1).size());
  if (!call.has_input(2)) return std::vector<double>(count, 0);
  std::vector<double> zeros = elements<double>(call.in(2));
  if (zeros.size() != count) zeros.assign(count, zeros.at(0));
  return zeros;
}

// ---- QuantizeLinear ----------------------------------------------------------

// The zero point's dtype, else output_dtype, else uint8.
DType quantized_dtype(const Call& call, DType zero_point) {
  const DType wanted = dtype_attr(call, "output_dtype");
  if (zero_point == DType::undefined) return wanted == DType::undefined ? DType::uint8 : wanted;
  if (wanted != DType::undefined && wanted != zero_point) {
    throw Error("attribute 'output_dtype' is " + std::string(name(wanted)) + " but the zero point is " +
                std::string(name(zero_point)));
  }
  return zero_point;
}

void infer_quantize(InferCall& call) {
  infer_same_shape(call);
  if (!call.has_input(2) || call.in(2).dtype != DType::undefined) {
    call.set_dtype(0, quantized_dtype(call, call.in(2).dtype));
  }
}

// The division is rounded to the scale's dtype, or to `precision`; scales that are no usual float divide in float32.
DType division_dtype(const Call& call, DType scale) {
  const DType precision = dtype_attr(call, "precision");
  const DType chosen = precision == DType::undefined ? scale : precision;
  return is_float(chosen) && info(chosen).bits >= 16 ? chosen : DType::float32;
}

void eval_quantize(EvalCall& call) {
  const Tensor& x = call.in(0);
  const DType out = quantized_dtype(call, call.has_input(2) ? call.in(2).dtype() : DType::undefined);
  if (!is_int(out) && !is_float(out)) throw Error("cannot quantize to " + std::string(name(out)));
  const ScaleLayout layout = layout_of(call);
  const std::vector<double> values = elements<double>(x);
  const std::vector<double> scales = elements<double>(call.in(1));
  const std::vector<double> zeros = zero_points(call);
  const DType precision = division_dtype(call, call.in(1).dtype());
  const bool saturate = call.integer("saturate", 1) != 0;
  std::vector<double> result(values.size());
  layout.for_each([&](std::size_t i, std::size_t s) {
    const double divided = round_to(precision, round_to(precision, values[i]) / round_to(precision, scales[s]));
    result[i] = quantize_number(out, divided, zeros[s], saturate);
  });
  call.out(0, from_elements<double>(out, x.dims(), result));
}

// x / scale as a range of the dtype it is divided in. Libraries that multiply by 1 / scale are off by a unit or so,
// which decides ties.
Range divided_range(DType precision, const Range& x, const Range& scale) {
  const Range quotient = divide(precision, x, scale);
  if (!quotient.has_finite()) return quotient;
  Range range = from_bounds(precision, quotient.lo, quotient.hi, 2);
  range.nan |= quotient.nan;
  range.pinf |= quotient.pinf;
  range.ninf |= quotient.ninf;
  return range;
}

// Rounded, shifted by the zero point, saturated. NaN may become any number.
Range quantized_range(DType out, const Range& x, const Range& zero) {
  if (x.is_empty() || zero.is_empty()) return {};
  const double least = lowest_finite(out);
  const double most = max_finite(out);
  if (x.nan || zero.nan) return any_finite(out);
  const auto limited = [&](double v) { return std::clamp(v, least, most); };
  return from_bounds(out, limited(std::nearbyint(x.least()) + zero.lo),
                     limited(std::nearbyint(x.greatest()) + zero.hi));
}

void range_quantize(RangeCall& call) {
  const DType out = call.out_dtype(0);
  const DType from = call.in_dtype(0);
  const DType precision = division_dtype(call, call.in_dtype(1));
  const Range scale = cast_range(call.hull(1), call.in_dtype(1), precision);
  const Range zero = call.has_range(2) ? call.hull(2) : point(0);
  const CastOptions options{.saturate = call.integer("saturate", 1) != 0};
  range_unary(call, [&](const Range& x, DType) {
    const Range divided = divided_range(precision, cast_range(x, from, precision), scale);
    if (is_int(out)) return quantized_range(out, divided, zero);
    return cast_range(add(precision, divided, zero), precision, out, options);
  });
}

constexpr Hazard kZeroScale[] = {{.rule = "FN307", .operand = 1, .unsafe = unsafe_zero}};

// ---- DequantizeLinear --------------------------------------------------------

void infer_dequantize(InferCall& call) {
  infer_same_shape(call);
  const DType wanted = dtype_attr(call, "output_dtype");
  if (wanted != DType::undefined) call.set_dtype(0, wanted);
}

void eval_dequantize(EvalCall& call) {
  const Tensor& x = call.in(0);
  const DType wanted = dtype_attr(call, "output_dtype");
  const DType out = wanted == DType::undefined ? call.in(1).dtype() : wanted;
  if (!is_float(out) || info(out).bits < 16) throw Error("cannot dequantize to " + std::string(name(out)));
  const ScaleLayout layout = layout_of(call);
  const std::vector<double> values = elements<double>(x);
  const std::vector<double> scales = elements<double>(call.in(1));
  const std::vector<double> zeros = zero_points(call);
  std::vector<double> result(values.size());
  layout.for_each([&](std::size_t i, std::size_t s) {
    const double shifted = round_to(DType::float32, values[i] - zeros[s]);
    result[i] = shifted * scales[s];
  });
  call.out(0, from_elements<double>(out, x.dims(), result));
}

void range_dequantize(RangeCall& call) {
  const DType out = call.out_dtype(0);
  const Range scale = call.hull(1);
  const Range zero = call.has_range(2) ? call.hull(2) : point(0);
  range_unary(call, [&](const Range& x, DType) {
    const Range shifted = subtract(DType::float32, x, zero);
    // The product rounded once, or to float32 first.
    const Range product = multiply(DType::float32, shifted, scale);
    return join(multiply(out, shifted, scale), cast_range(product, DType::float32, out));
  });
}

// ---- DynamicQuantizeLinear ---------------------------------------------------

void infer_dynamic_quantize(InferCall& call) {
  infer_same_shape(call);
  call.set_shape(1, {});
  call.set_shape(2, {});
}

void eval_dynamic_quantize(EvalCall& call) {
  const Tensor& x = call.in(0);
  const DynamicQuantized result = dynamically_quantized(elements<float>(x));
  call.out(0, from_elements<double>(DType::uint8, x.dims(), result.values));
  call.out(1, Tensor::scalar(result.scale));
  call.out(2, from_elements<double>(DType::uint8, {}, std::vector<double>{result.zero_point}));
}

// (max(x, 0) - min(x, 0)) / 255, or 1 where that is 0. Tiny data may give a scale of 0.
void range_dynamic_quantize(RangeCall& call) {
  const Range x = call.hull(0);
  const Range bytes = any_finite(DType::uint8);
  const Range largest = maximum(x, point(0));
  const Range least = minimum(x, point(0));
  Range width = subtract(DType::float32, largest, least);
  // All elements above zero, or all below: the width is at least the smallest of them.
  if (width.has_finite()) width.lo = std::max({x.lo, -x.hi, 0.0});
  Range scale = divide(DType::float32, width, point(255));
  const bool never_zero = width.has_finite() && width.lo > 0 && call.in(0).least_count(~0U) >= 1;
  if (!never_zero) scale = join(scale, point(1));
  call.out(0, bytes);
  call.out(1, scale);
  call.out(2, bytes);
}

constexpr std::string_view kQuantizeSignature =
    "(x: T1, y_scale: T2, y_zero_point?: T3) -> (y: T3) where T1: float32 | float16 | bfloat16 | int32, "
    "T2: float32 | float16 | bfloat16 | int32 | float8e8m0, T3: int8 | uint8 | int16 | uint16 | int4 | uint4 | int2 | "
    "uint2 | float8e4m3fn | float8e4m3fnuz | float8e5m2 | float8e5m2fnuz | float4e2m1";
constexpr std::string_view kDequantizeSignature =
    "(x: T1, x_scale: T2, x_zero_point?: T1) -> (y: T2) where T1: int8 | uint8 | int16 | uint16 | int32 | int4 | "
    "uint4 | int2 | uint2 | float8e4m3fn | float8e4m3fnuz | float8e5m2 | float8e5m2fnuz | float4e2m1, "
    "T2: float32 | float16 | bfloat16 | float8e8m0";
constexpr std::string_view kQuantizeFreedom =
    "x / scale is rounded to the scale's dtype before it is rounded to an integer; NaN becomes the smallest integer";
constexpr std::string_view kDequantizeFreedom = "x - zero_point is rounded to float32, the product once to the output";

// ---- drawing ---------------------------------------------------------------

// A scale, and perhaps a zero point: one each, or one per index of the axis.
void draw_scale_and_zero(DrawCall& call, DType scale, DType code) {
  const bool per_axis = call.rank() > 0 && call.opset() >= 13 && call.chance(40);
  const Dims dims = per_axis ? Dims{call.length(call.axis("axis", 1))} : Dims{};
  call.add(call.draw(scale, dims, ValueClass::positive), 80);
  if (call.chance(70)) call.add(call.draw(code, dims, ValueClass::positive), 80);
}

bool draw_quantize(DrawCall& call) {
  draw_scale_and_zero(call, call.dtype(), call.chance(50) ? DType::uint8 : DType::int8);
  return true;
}

bool draw_dequantize(DrawCall& call) {
  draw_scale_and_zero(call, DType::float32, call.dtype());
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "QuantizeLinear",
                  .since = 10,
                  .summary = "x / scale rounded to nearest even, plus zero point, saturated",
                  .signature = kQuantizeSignature,
                  .attrs = "axis: int = 1 since 13; block_size: int = 0 since 21; output_dtype: int = 0 since 21; "
                           "precision: int = 0 since 23; saturate: int = 1 since 19"},
     .meaning = {.infer = infer_quantize, .eval = eval_quantize, .freedom = kQuantizeFreedom},
     .analysis = {.range = range_quantize, .hazards = kZeroScale},
     .drawing = {.operands = draw_quantize, .often = 1}},
    {.identity = {.name = "DequantizeLinear",
                  .since = 10,
                  .summary = "(x - zero point) * scale",
                  .signature = kDequantizeSignature,
                  .attrs = "axis: int = 1 since 13; block_size: int = 0 since 21; output_dtype: int = 0 since 23"},
     .meaning = {.infer = infer_dequantize, .eval = eval_dequantize, .freedom = kDequantizeFreedom},
     .analysis = {.range = range_dequantize, .vjp = dequantize_gradient},
     .drawing = {.operands = draw_dequantize, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "DynamicQuantizeLinear",
                  .since = 11,
                  .summary = "quantizes to uint8 with the scale and zero point that fit the data",
                  .signature = "(x: float32) -> (y: uint8, y_scale: float32, y_zero_point: uint8)"},
     .meaning = {.infer = infer_dynamic_quantize,
                 .eval = eval_dynamic_quantize,
                 .freedom = "all in float32; the scale of all zeros is 1; one NaN makes the scale NaN"},
     .analysis = {.range = range_dynamic_quantize},
     .drawing = {.ends = Ends::given}},
    {.identity = {.name = "QuantizeLinear",
                  .domain = kMicrosoft,
                  .summary = "x / scale rounded to nearest even, plus zero point, saturated",
                  .signature = kQuantizeSignature,
                  .attrs = "axis: int; block_size: int = 0"},
     .meaning = {.infer = infer_quantize, .eval = eval_quantize, .freedom = kQuantizeFreedom},
     .analysis = {.range = range_quantize, .hazards = kZeroScale}},
    {.identity = {.name = "DequantizeLinear",
                  .domain = kMicrosoft,
                  .summary = "(x - zero point) * scale",
                  .signature = kDequantizeSignature,
                  .attrs = "axis: int; block_size: int = 0"},
     .meaning = {.infer = infer_dequantize, .eval = eval_dequantize, .freedom = kDequantizeFreedom},
     .analysis = {.range = range_dequantize, .vjp = dequantize_gradient}},
};

}  // namespace

std::span<const OpDef> quantize_ops() { return kOps; }

}  // namespace finity
