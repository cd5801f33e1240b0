#include "types/typed_builder.h"

#include "ops/table/op.h"

namespace finity {

TypedBuilder::TypedBuilder(GraphBuilder start, const Types& types)
    : builder_(std::move(start)), types_(builder_.peek(), types) {}

const Tensor* TypedBuilder::known(ValueId id) const {
  const std::optional<Tensor>& known = types_.types().known[id.at()];
  return known ? &*known : nullptr;
}

Node TypedBuilder::node_named(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  Node node = node_of(op_named(op), kOpset);
  node.inputs = std::move(inputs);
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  node.attrs = std::move(attrs);
  return node;
}

NodeId TypedBuilder::add_node(Node node) {
  const NodeId id = builder_.add_node(std::move(node));
  types_.add_node(graph().node(id));
  return id;
}

ValueId TypedBuilder::add_constant(BodyId body, std::string name, ConstantPtr constant) {
  const ValueId id = builder_.add_constant(body, std::move(name), std::move(constant));
  types_.add_constant(id);
  return id;
}

ValueId TypedBuilder::add_input(BodyId body, std::string name, Type type) {
  const ValueId id = builder_.add_input(body, std::move(name), type);
  types_.set(id, std::move(type));
  return id;
}

BodyId TypedBuilder::begin_body(std::string name) {
  open_.push_back(builder_.add_body(std::move(name)));
  return open_.back();
}

void TypedBuilder::end_body(std::vector<ValueId> outputs) {
  builder_.body(current_body()).outputs = std::move(outputs);
  open_.pop_back();
}

TypedBuilder::Result TypedBuilder::finish() && {
  Types types = std::move(types_).take();
  Graph graph = std::move(builder_).build();
  return {std::move(graph), std::move(types)};
}

}  // namespace finity
