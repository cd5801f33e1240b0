#include "formats/onnx/opset_versions.h"

#include <algorithm>
#include <array>

namespace finity::onnx {

namespace {

int ir_of_dtype(DType dtype) {
  switch (dtype) {
    case DType::bfloat16: return 4;
    case DType::float8e4m3fn:
    case DType::float8e4m3fnuz:
    case DType::float8e5m2:
    case DType::float8e5m2fnuz: return 9;
    case DType::uint4:
    case DType::int4: return 10;
    case DType::float4e2m1: return 11;
    case DType::float8e8m0: return 12;
    case DType::uint2:
    case DType::int2: return 13;
    default: return 1;
  }
}

int ir_of_type(const Type& type) {
  const bool late = type.kind == Type::Kind::optional || type.kind == Type::Kind::sparse_tensor;
  const int element = type.element ? ir_of_type(*type.element) : 1;
  return std::max({late ? 8 : 1, ir_of_dtype(type.dtype), element});
}

int ir_of_constant(const Constant& constant) {
  return std::max(constant.sparse() ? 6 : 1, ir_of_dtype(constant.dtype()));
}

int ir_of_attr(const Attr& attr) {
  int ir = 1;
  if (const auto* one = std::get_if<ConstantPtr>(&attr)) ir = ir_of_constant(**one);
  if (const auto* one = std::get_if<Type>(&attr)) ir = ir_of_type(*one);
  if (const auto* many = std::get_if<std::vector<ConstantPtr>>(&attr)) {
    for (const ConstantPtr& constant : *many) ir = std::max(ir, ir_of_constant(*constant));
  }
  if (const auto* many = std::get_if<std::vector<Type>>(&attr)) {
    for (const Type& type : *many) ir = std::max(ir, ir_of_type(type));
  }
  return ir;
}

}  // namespace

int opset_of_ir(std::int64_t ir) {
  static constexpr std::array<int, kNewestIr + 1> kNewest = {1, 1, 1, 8, 9, 10, 11, 14, 18, 20, 22, 23, 24, 27, 27};
  return kNewest[static_cast<std::size_t>(std::clamp<std::int64_t>(ir, 0, kNewestIr))];
}

int ir_of_opset(int opset) {
  int ir = kOpsetsIr;
  while (ir < kNewestIr && opset_of_ir(ir) < opset) ++ir;
  return ir;
}

int required_ir(const Graph& graph) {
  int ir = 1;
  for (const Value& value : graph.values()) {
    ir = std::max(ir, ir_of_type(value.type));
    if (value.constant) ir = std::max(ir, ir_of_constant(*value.constant));
  }
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, attr] : node.attrs) ir = std::max(ir, ir_of_attr(attr));
  }
  return ir;
}

}  // namespace finity::onnx
