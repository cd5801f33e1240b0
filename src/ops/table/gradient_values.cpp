#include "ops/table/gradient_values.h"

namespace finity {

const Type& innermost(const Type& type) {
  const bool holds = type.kind == Type::Kind::sequence || type.kind == Type::Kind::optional;
  return holds && type.element ? innermost(*type.element) : type;
}

bool holds_floats(const Type& type) {
  const Type& held = innermost(type);
  return held.is_tensor() && is_float(held.dtype);
}

bool is_sequence(const Type& type) { return type.kind == Type::Kind::sequence; }

ValueId sum_of_gradients(NodeWriter& writer, ValueId a, ValueId b) {
  const std::string_view op = is_sequence(writer.type(a)) ? "finity:SequenceSum" : "Add";
  return writer.add(op, {a, b}, {}, 1).front();
}

}  // namespace finity
