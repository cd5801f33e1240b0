// Changes of dtype.
#include "ops/elementwise/cast.h"

#include <algorithm>
#include <array>

#include "ops/elementwise/elementwise.h"
#include "ops/shared/lengths.h"
#include "ops/shared/partial_ints.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

constexpr std::string_view kCastAttrs =
    "saturate: int = 1 since 19; round_mode: string = up {up, down, nearest} since 24";

// Opset 1 names the target as ONNX's enumeration does.
DType dtype_from_onnx_name(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, DType>, 13> kNames = {{{"FLOAT", DType::float32},
                                                                          {"UINT8", DType::uint8},
                                                                          {"INT8", DType::int8},
                                                                          {"UINT16", DType::uint16},
                                                                          {"INT16", DType::int16},
                                                                          {"INT32", DType::int32},
                                                                          {"INT64", DType::int64},
                                                                          {"STRING", DType::string},
                                                                          {"BOOL", DType::boolean},
                                                                          {"FLOAT16", DType::float16},
                                                                          {"DOUBLE", DType::float64},
                                                                          {"UINT32", DType::uint32},
                                                                          {"UINT64", DType::uint64}}};
  const auto* found = std::ranges::find(kNames, text, &std::pair<std::string_view, DType>::first);
  if (found == kNames.end()) throw Error("attribute 'to' has the unknown value '" + std::string(text) + "'");
  return found->second;
}

DType target(const Call& call) {
  const Attr* to = call.attrs().find("to");
  if (to != nullptr && std::holds_alternative<std::string>(*to)) return dtype_from_onnx_name(call.text("to"));
  const std::int64_t code = call.integer("to");
  const auto dtype = dtype_from_code(code);
  if (!dtype) throw Error("attribute 'to' has the unknown value " + std::to_string(code));
  return *dtype;
}

CastOptions options_of(const Call& call) {
  using Rounding = CastOptions::Rounding;
  const std::string mode = call.text("round_mode");
  return {.saturate = call.integer("saturate") != 0,
          .saturate_infinity_fnuz = call.version() >= 24,
          .rounding = mode == "up"     ? Rounding::up
                      : mode == "down" ? Rounding::down
                                       : Rounding::nearest};
}

// Integers that fit keep their value, so that a shape survives being cast to int32 and back.
void infer_cast_to(InferCall& call, DType to) {
  call.set_dtype(0, to);
  infer_same_shape(call);
  propagate_first_ints(call);
}

void infer_cast(InferCall& call) { infer_cast_to(call, target(call)); }

void infer_cast_like(InferCall& call) { infer_cast_to(call, call.in(1).dtype); }

void eval_cast(EvalCall& call) { call.out(0, cast(call.in(0), target(call), options_of(call))); }

void eval_cast_like(EvalCall& call) { call.out(0, cast(call.in(0), call.in(1).dtype(), options_of(call))); }

void range_cast_op(RangeCall& call) { range_cast(call, call.out_dtype(0), options_of(call)); }

// ---- BitCast ---------------------------------------------------------------

void require_same_width(DType from, DType to) {
  const bool strings = from == DType::string || to == DType::string;
  if (strings || info(from).bits != info(to).bits) {
    throw Error("the bits of " + std::string(name(from)) + " cannot be read as " + std::string(name(to)));
  }
}

void infer_bit_cast(InferCall& call) {
  const DType to = target(call);
  if (call.in(0).dtype != DType::undefined) require_same_width(call.in(0).dtype, to);
  call.set_dtype(0, to);
  infer_same_shape(call);
}

// Types below 8 bits are held one to a byte, the signed ones with their sign extended.
std::byte reread_byte(DType to, std::byte byte) {
  const auto bits = static_cast<std::uint8_t>(byte);
  if (to == DType::boolean) return std::byte{bits != 0};
  const int unused = 8 - info(to).bits;
  const auto shifted = static_cast<std::uint8_t>(bits << unused);
  if (is_signed_int(to)) return static_cast<std::byte>(static_cast<std::int8_t>(shifted) >> unused);
  return static_cast<std::byte>(shifted >> unused);
}

void eval_bit_cast(EvalCall& call) {
  const Tensor& from = call.in(0);
  const DType to = target(call);
  require_same_width(from.dtype(), to);
  Tensor result(to, from.dims());
  std::ranges::copy(from.bytes(), result.mutable_bytes().begin());
  if (info(to).memory_bytes == 1) {
    for (std::byte& byte : result.mutable_bytes()) byte = reread_byte(to, byte);
  }
  call.out(0, std::move(result));
}

// Bits say nothing about bounds, except that the same dtype is the same number.
void range_bit_cast(RangeCall& call) {
  if (call.in_dtype(0) == call.out_dtype(0)) return call.same(0, 0);
  call.top(0);
}

void cast_gradient(BuildCall& call) { call.give(0, call.cast(call.grad(0), call.in_type(0).dtype)); }

const OpDef kOps[] = {
    {.identity =
         {.name = "Cast",
          .summary = "each element converted to another dtype: to an integer by dropping the fraction, to bool by "
                     "asking whether it is zero, to a narrower float by rounding",
          .signature =
              "(input: T1) -> (output: T2) where T1: number | bool | string | float8 | uint4 | int4 | uint2 | int2, "
              "T2: number | bool | string | float8 | uint4 | int4 | uint2 | int2",
          .attrs = "to: value; saturate: int = 1 since 19; round_mode: string = up {up, down, nearest} since 24",
          .tf = "Cast"},
     .meaning =
         {.infer = infer_cast,
          .eval = eval_cast,
          .freedom =
              "a float outside an integer dtype saturates at 64 bits and wraps, NaN gives 0; a negative number is NaN "
              "in float8e8m0; floats are written with the fewest digits that read back, bools as 1 and 0"},
     .analysis = {.range = range_cast_op,
                  .length = length_cast,
                  .vjp = cast_gradient,
                  .hazards = cast_hazards(),
                  .overflow = "FN206"},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::converted},
     .drawing = {.often = 3}},
    {.identity =
         {.name = "CastLike",
          .since = 15,
          .summary = "elements converted to the dtype of another tensor",
          .signature =
              "(input: T1, target_type: T2) -> (output: T2) where T1: number | bool | string | float8 | uint4 | "
              "int4 | uint2 | int2, T2: number | bool | string | float8 | uint4 | int4 | uint2 | int2",
          .attrs = kCastAttrs},
     .meaning = {.infer = infer_cast_like, .eval = eval_cast_like, .freedom = "as Cast"},
     .analysis = {.range = range_cast_op, .vjp = cast_gradient, .hazards = cast_hazards(), .overflow = "FN206"},
     .traits = {.exact = true}},
    {.identity = {.name = "BitCast",
                  .since = 26,
                  .summary = "the same bits read as another dtype of the same width",
                  .signature = "(input: T1) -> (output: T2) where T1: any, T2: any",
                  .attrs = "to: int",
                  .tf = "Bitcast"},
     .meaning = {.infer = infer_bit_cast, .eval = eval_bit_cast, .freedom = "any bits but zero are true as a bool"},
     .analysis = {.range = range_bit_cast},
     .traits = {.exact = true, .elementwise = true}},
};

}  // namespace

std::span<const OpDef> cast_ops() { return kOps; }

}  // namespace finity
