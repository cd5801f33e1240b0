#include "ops/exact.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Default domain. One correctly rounded operation, a choice, or data movement.
constexpr std::array<std::string_view, 85> kExact = {"Abs",
                                                     "Add",
                                                     "And",
                                                     "ArgMax",
                                                     "ArgMin",
                                                     "BitCast",
                                                     "BitShift",
                                                     "BitwiseAnd",
                                                     "BitwiseNot",
                                                     "BitwiseOr",
                                                     "BitwiseXor",
                                                     "Cast",
                                                     "CastLike",
                                                     "Ceil",
                                                     "CenterCropPad",
                                                     "Clip",
                                                     "Compress",
                                                     "Concat",
                                                     "Constant",
                                                     "ConstantFill",
                                                     "ConstantOfShape",
                                                     "Crop",
                                                     "DepthToSpace",
                                                     "DequantizeLinear",
                                                     "Div",
                                                     "Dropout",
                                                     "DynamicSlice",
                                                     "Equal",
                                                     "Expand",
                                                     "EyeLike",
                                                     "Flatten",
                                                     "Floor",
                                                     "Gather",
                                                     "GatherElements",
                                                     "GatherND",
                                                     "GivenTensorFill",
                                                     "GlobalMaxPool",
                                                     "Greater",
                                                     "GreaterOrEqual",
                                                     "Hardmax",
                                                     "Identity",
                                                     "IsInf",
                                                     "IsNaN",
                                                     "LeakyRelu",
                                                     "Less",
                                                     "LessOrEqual",
                                                     "Max",
                                                     "MaxPool",
                                                     "MaxUnpool",
                                                     "Min",
                                                     "Mod",
                                                     "Mul",
                                                     "Neg",
                                                     "NonZero",
                                                     "Not",
                                                     "OneHot",
                                                     "Or",
                                                     "PRelu",
                                                     "Pad",
                                                     "Reciprocal",
                                                     "ReduceMax",
                                                     "ReduceMin",
                                                     "Relu",
                                                     "Reshape",
                                                     "ReverseSequence",
                                                     "Round",
                                                     "Shape",
                                                     "Sign",
                                                     "Size",
                                                     "Slice",
                                                     "SpaceToDepth",
                                                     "Split",
                                                     "Sqrt",
                                                     "Squeeze",
                                                     "Sub",
                                                     "TensorScatter",
                                                     "ThresholdedRelu",
                                                     "Tile",
                                                     "TopK",
                                                     "Transpose",
                                                     "Trilu",
                                                     "Unique",
                                                     "Unsqueeze",
                                                     "Where",
                                                     "Xor"};

// Exact unless they add up what falls on the same place.
constexpr std::array<std::string_view, 3> kScatters = {"Scatter", "ScatterElements", "ScatterND"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool holds_fractions(const Datum& datum) {
  constexpr double kWhole = 1 << 24;
  if (!datum.present()) return false;
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) return true;
  if (!is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor),
                             [](double x) { return !(std::abs(x) < kWhole) || x != std::floor(x); });
}

bool has_freedom(const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  return datum.present() && (tensor == nullptr || is_float(tensor->dtype()) || is_complex(tensor->dtype()));
}

bool only_stores(const Node& node) {
  const Attr* reduction = node.attrs.find("reduction");
  const auto* text = reduction == nullptr ? nullptr : std::get_if<std::string>(reduction);
  return text == nullptr || *text == "none";
}

}  // namespace

bool folds_exactly(const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
  if (std::ranges::none_of(inputs, has_freedom) && std::ranges::none_of(outputs, has_freedom)) return true;
  if (node.op == nullptr || !node.op->domain.empty()) return false;
  const std::string_view name = node.op->name;
  if (contains(kScatters, name)) return only_stores(node);
  // start + i * delta of whole numbers is one.
  if (name == "Range") return std::ranges::none_of(inputs, holds_fractions);
  return contains(kExact, name);
}

}  // namespace finity
