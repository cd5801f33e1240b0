#include "types/hazard_quantity.h"

#include "base/error.h"

namespace finity {

namespace {

// The op's float format; an op without one (of integers) has the format of the quantity itself.
DType format_of(const BuildCall& call, const Node& node, ValueId value) {
  for (const std::vector<ValueId>* ids : {&node.outputs, &node.inputs}) {
    for (const ValueId id : *ids) {
      if (id.valid() && is_float(call.type(id).dtype)) return call.type(id).dtype;
    }
  }
  return call.type(value).dtype;
}

}  // namespace

HazardQuantity add_quantity(GraphWriter& writer, NodeId id, const Hazard& hazard) {
  const Node node = writer.graph().node(id);  // a copy: nodes are added while it is looked at
  if (node.body != Graph::kMain) throw Unsupported("the quantity of a hazard inside a subgraph");
  BuildCall call(call_of(writer.graph(), node), {node.inputs, node.outputs, node.captures}, writer);
  if (hazard.quantity == nullptr) {
    if (!call.has_input(hazard.operand)) throw Unsupported("the hazard's operand is omitted");
    return {call.in(hazard.operand), hazard.unsafe(call.in_type(hazard.operand).dtype)};
  }
  try {
    const ValueId value = hazard.quantity(call);
    return {value, hazard.unsafe(format_of(call, node, value))};
  } catch (Error& error) {
    error.in("hazard " + std::string(hazard.rule) + " of " + describe(writer.graph(), node));
    throw;
  }
}

}  // namespace finity
