// ONNX Runtime's ops on quantized tensors: dequantized, computed, and quantized again.
#include <algorithm>

#include "base/error.h"
#include "ops/quantised/integer_product_range.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// Scale and zero point, which may be omitted, hold for the whole tensor.
void require_number(const BuildCall& call, std::size_t input) {
  if (!call.has_input(input)) return;
  const std::optional<Dims> dims = call.dims(call.in(input));
  if (dims && element_count(*dims) != 1) {
    throw Error("input " + std::to_string(input) + " has shape " + to_string(*dims) + ", expected one element");
  }
}

// The operand at `x`; its scale and its zero point follow.
ValueId dequantized(BuildCall& call, std::size_t x) {
  for (const std::size_t i : {x + 1, x + 2}) require_number(call, i);
  return call.add("DequantizeLinear", {call.in(x), call.in(x + 1), call.in(x + 2)});
}

// With the scale at `scale` and the zero point behind it; without one in the format of the operand `like`.
std::vector<ValueId> quantized(BuildCall& call, ValueId y, std::size_t scale, std::size_t like) {
  for (const std::size_t i : {scale, scale + 1}) require_number(call, i);
  Attrs attrs;
  if (!call.has_input(scale + 1)) attrs.set("output_dtype", static_cast<std::int64_t>(call.in_type(like).dtype));
  return {call.add("QuantizeLinear", {y, call.in(scale), call.in(scale + 1)}, std::move(attrs))};
}

// (X, X_scale, X_zero_point?, Y_scale, Y_zero_point?) -> Y
template <Text Op>
std::vector<ValueId> unary(BuildCall& call) {
  return quantized(call, call.add(Op.view(), {dequantized(call, 0)}, call.attrs()), 3, 0);
}

// (A, A_scale, A_zero_point?, B, B_scale, B_zero_point?, C_scale, C_zero_point?) -> C
template <Text Op>
std::vector<ValueId> binary(BuildCall& call) {
  return quantized(call, call.add(Op.view(), {dequantized(call, 0), dequantized(call, 3)}), 6, 0);
}

// (Y_scale, Y_zero_point, then X, X_scale, X_zero_point each)
std::vector<ValueId> concat(BuildCall& call) {
  if (call.input_count() < 5 || (call.input_count() - 2) % 3 != 0) {
    throw Error("has " + std::to_string(call.input_count()) + " inputs, expected 2 and 3 for each tensor");
  }
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < call.input_count(); i += 3) parts.push_back(dequantized(call, i));
  return quantized(call, call.add("Concat", std::move(parts), call.attrs()), 0, 1);
}

// The channels are the second axis, or the last and go there and back.
template <Text Op>
std::vector<ValueId> pool(BuildCall& call) {
  ValueId x = dequantized(call, 0);
  Attrs attrs;
  for (const auto& [name, value] : call.attrs()) {
    if (name != "channels_last") attrs.set(name, value);
  }
  if (call.integer("channels_last") == 0) return quantized(call, call.add(Op.view(), {x}, std::move(attrs)), 3, 0);
  const std::size_t rank = call.rank(x);
  std::vector<std::int64_t> first = axes_from(0, rank), back = first;
  if (rank > 2) {
    std::rotate(first.begin() + 1, first.end() - 1, first.end());
    std::rotate(back.begin() + 1, back.begin() + 2, back.end());
  }
  x = call.add(Op.view(), {transposed(call, x, std::move(first))}, std::move(attrs));
  return quantized(call, transposed(call, x, std::move(back)), 3, 0);
}

constexpr std::string_view kUnary =
    "(X: T, X_scale: float32, X_zero_point?: T, Y_scale: float32, Y_zero_point?: T) -> (Y: T) where T: int8 | uint8";
constexpr std::string_view kBinary =
    "(A: T, A_scale: float32, A_zero_point?: T, B: T, B_scale: float32, B_zero_point?: T, C_scale: float32, "
    "C_zero_point?: T) -> (C: T) where T: int8 | uint8";
constexpr std::string_view kFreedom = "in float64 from the dequantized numbers on, rounded once";

const Hazard kUnaryHazards[] = {{.rule = "FN307", .operand = 3, .unsafe = unsafe_zero_of_floats}};
const Hazard kBinaryHazards[] = {{.rule = "FN307", .operand = 6, .unsafe = unsafe_zero_of_floats}};
const Hazard kConcatHazards[] = {{.rule = "FN307", .operand = 0, .unsafe = unsafe_zero_of_floats}};

const OpDef kOps[] = {
    {.identity =
         {.name = "QLinearAdd", .domain = kMicrosoft, .summary = "sum of two quantized tensors", .signature = kBinary},
     .meaning = {.body = binary<"Add">, .freedom = kFreedom},
     .analysis = {.hazards = kBinaryHazards}},
    {.identity = {.name = "QLinearMul",
                  .domain = kMicrosoft,
                  .summary = "product of two quantized tensors",
                  .signature = kBinary},
     .meaning = {.body = binary<"Mul">, .freedom = kFreedom},
     .analysis = {.hazards = kBinaryHazards}},
    {.identity = {.name = "QLinearSigmoid",
                  .domain = kMicrosoft,
                  .summary = "1 / (1 + exp(-x)) of a quantized tensor",
                  .signature = kUnary},
     .meaning = {.body = unary<"Sigmoid">, .freedom = kFreedom},
     .analysis = {.hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearLeakyRelu",
                  .domain = kMicrosoft,
                  .summary = "x, or alpha * x where negative, of a quantized tensor",
                  .signature = kUnary,
                  .attrs = "alpha: float = 0.01"},
     .meaning = {.body = unary<"LeakyRelu">, .freedom = kFreedom},
     .analysis = {.hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearConcat",
                  .domain = kMicrosoft,
                  .summary = "quantized tensors joined along an axis",
                  .signature =
                      "(Y_scale: float32, Y_zero_point: T8, inputs...: value) -> (Y: T8) where T8: int8 | uint8",
                  .attrs = "axis: int"},
     .meaning = {.body = concat, .freedom = kFreedom},
     .analysis = {.hazards = kConcatHazards}},
    {.identity =
         {.name = "QLinearAveragePool",
          .domain = kMicrosoft,
          .summary = "mean of each window of a quantized tensor",
          .signature = kUnary,
          .attrs =
              "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; "
              "pads: ints; ceil_mode: int = 0; count_include_pad: int = 0; channels_last: int = 0"},
     .meaning = {.body = pool<"AveragePool">, .freedom = kFreedom},
     .analysis = {.hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearGlobalAveragePool",
                  .domain = kMicrosoft,
                  .summary = "mean of each channel of a quantized tensor",
                  .signature = kUnary,
                  .attrs = "channels_last: int = 0"},
     .meaning = {.body = pool<"GlobalAveragePool">, .freedom = kFreedom},
     .analysis = {.hazards = kUnaryHazards}},
};

}  // namespace

std::span<const OpDef> qlinear_ops() { return kOps; }

}  // namespace finity
