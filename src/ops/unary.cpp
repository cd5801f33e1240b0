// Elementwise ops of one float operand that are a function of double.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/families.h"

namespace finity {

namespace {

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";

double reciprocal(double x) { return 1.0 / x; }

const OpDef kOps[] = {
    {.name = "Exp",
     .summary = "e to the power of x",
     .signature = kFloatToFloat,
     .tf = "Exp",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::exp>},
    {.name = "Log",
     .summary = "natural logarithm",
     .signature = kFloatToFloat,
     .tf = "Log",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::log>},
    {.name = "Reciprocal",
     .summary = "1 / x",
     .signature = kFloatToFloat,
     .tf = "Reciprocal",
     .infer = infer_same_shape,
     .eval = eval_float_unary<reciprocal>},
};

}  // namespace

std::span<const OpDef> unary_ops() { return kOps; }

}  // namespace finity
