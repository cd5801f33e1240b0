#include "ops/table/dtypes.h"

#include <map>

#include "base/error.h"
#include "ops/table/op.h"

namespace finity {

namespace {

struct Bound {
  DType dtype = DType::undefined;
  std::string_view by;
};
using Variables = std::map<std::string_view, Bound>;

// The dtype a constraint speaks about: of the tensor, or of a sequence's or optional's elements.
DType dtype_of(const Type& type) {
  if (type.element && type.kind != Type::Kind::map) return dtype_of(*type.element);
  return type.dtype;
}

bool kind_fits(const ParamType& wanted, const Type& type) {
  if (wanted.kind == Type::Kind::unknown || type.kind == Type::Kind::unknown) return true;
  if (type.kind == Type::Kind::sparse_tensor) return true;
  // Where an optional is expected, ONNX also takes its element directly.
  return wanted.kind == type.kind || wanted.kind == Type::Kind::optional;
}

void check_operand(const Param& param, const Type& type, Variables& variables) {
  if (param.type.kind == Type::Kind::unknown) return;
  if (!kind_fits(param.type, type)) throw Error("input " + param.name + " is not of the expected kind");
  const DType dtype = dtype_of(type);
  if (dtype == DType::undefined) return;
  if (!param.type.dtypes[static_cast<std::size_t>(dtype)]) {
    throw Error("input " + param.name + " is " + std::string(name(dtype)) + ", expected " +
                to_string(param.type.dtypes));
  }
  if (param.type.variable.empty()) return;
  Bound& bound = variables[param.type.variable];
  if (bound.dtype == DType::undefined) {
    bound = {dtype, param.name};
  } else if (bound.dtype != dtype) {
    throw Error("input " + param.name + " is " + std::string(name(dtype)) + " but " + std::string(bound.by) + " is " +
                std::string(name(bound.dtype)));
  }
}

Type output_type(const Param& param, const Variables& variables) {
  DType dtype = DType::undefined;
  const auto bound = variables.find(param.type.variable);
  if (bound != variables.end()) {
    dtype = bound->second.dtype;
  } else if (param.type.variable.empty() && param.type.dtypes.count() == 1) {
    while (!param.type.dtypes[static_cast<std::size_t>(dtype)]) dtype = static_cast<DType>(static_cast<int>(dtype) + 1);
  }
  switch (param.type.kind) {
    case Type::Kind::tensor: return Type::tensor(dtype);
    case Type::Kind::sequence: return Type::sequence(Type::tensor(dtype));
    case Type::Kind::optional: return Type::optional(Type::tensor(dtype));
    default: return {};
  }
}

}  // namespace

void check_dtypes(const OpDef& op, InferCall& call) {
  const Signature& signature = signature_of(op);
  Variables variables;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_input(i)) continue;
    check_operand(*Signature::param(signature.inputs, i), call.in(i), variables);
  }
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    call.out(i) = output_type(*Signature::param(signature.outputs, i), variables);
  }
}

}  // namespace finity
