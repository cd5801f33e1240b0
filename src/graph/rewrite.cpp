#include "graph/rewrite.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace finity {

Node detached(const Node& node, GraphBuilder& into) {
  Node copy;
  copy.op = node.op;
  copy.op_type = into.intern(node.op_type);
  copy.domain = into.intern(node.domain);
  copy.version = node.version;
  copy.name = node.name;
  copy.attrs = node.attrs;
  copy.where = node.where;
  return copy;
}

ValueId GraphCopy::copy_of(ValueId id) {
  if (!id.valid()) return id;
  if (const auto found = values_.find(id); found != values_.end()) return found->second;
  const auto body = bodies_.find(from_.value(id).body);
  if (body != bodies_.end()) {
    // Read before the node that computes it is copied: nodes may stand in any order while a graph is being built.
    const ValueId copy = add_result(body->second, id);
    values_[id] = copy;
    return copy;
  }
  if (!within_one_graph()) throw Error("value '" + from_.value(id).name + "' is not part of what is copied");
  return id;
}

NodeId GraphCopy::copy_of(NodeId id) const {
  const auto found = nodes_.find(id);
  return found != nodes_.end() ? found->second : NodeId{};
}

std::vector<ValueId> GraphCopy::copies_of(std::span<const ValueId> ids) {
  std::vector<ValueId> copies;
  copies.reserve(ids.size());
  for (const ValueId id : ids) copies.push_back(copy_of(id));
  return copies;
}

BodyId GraphCopy::copy_body(BodyId body) {
  const std::vector<ValueId> inputs = from_.body(body).inputs, outputs = from_.body(body).outputs;
  const BodyId copy = add_body(body);
  for (const ValueId in : inputs) replace(in, add_input(copy, in));
  copy_parts(body, copy, true);
  std::vector<ValueId> results = copies_of(outputs);
  into_.body(copy).outputs = std::move(results);
  return copy;
}

std::vector<ValueId> GraphCopy::copy_contents(BodyId body, std::span<const ValueId> inputs, BodyId into) {
  const std::vector<ValueId> own = from_.body(body).inputs, outputs = from_.body(body).outputs;
  if (own.size() != inputs.size()) throw Error("a body is copied with another number of inputs");
  for (std::size_t i = 0; i < own.size(); ++i) replace(own[i], inputs[i]);
  copy_parts(body, into, false);
  return copies_of(outputs);
}

// Lists are copied first: what they are in moves when the graph grows that they are copied into.
void GraphCopy::copy_parts(BodyId body, BodyId into, bool with_defaults) {
  const std::vector<ValueId> constants = from_.body(body).constants;
  const std::vector<NodeId> nodes = from_.body(body).nodes;
  bodies_[body] = into;
  for (const ValueId id : constants) {
    const auto input = values_.find(id);
    if (input == values_.end()) {
      replace(id, add_constant(into, id));
    } else if (with_defaults) {
      into_.value(input->second).constant = from_.value(id).constant;
      into_.body(into).constants.push_back(input->second);
    }
  }
  for (const NodeId id : nodes) copy_node(id, into);
}

NodeId GraphCopy::copy_node(NodeId id, BodyId into) {
  const Node original = from_.node(id);
  Node copy = detached(original, into_);
  copy.body = into;
  copy.inputs = copies_of(original.inputs);
  copy.attrs = copy_attrs(original.attrs);
  if (original.gradient_of.valid()) {
    const NodeId forward = copy_of(original.gradient_of);
    copy.gradient_of = !forward.valid() && within_one_graph() ? original.gradient_of : forward;
  }
  for (const ValueId out : original.outputs) {
    if (out.valid() && !values_.contains(out)) replace(out, add_result(into, out));
    copy.outputs.push_back(out.valid() ? values_.at(out) : out);
  }
  const NodeId added = add_node(std::move(copy), id);
  nodes_[id] = added;
  return added;
}

Attrs GraphCopy::copy_attrs(const Attrs& attrs) {
  Attrs result;
  for (const auto& [name, attr] : attrs) {
    if (const auto* body = std::get_if<BodyId>(&attr)) {
      result.set(name, copy_body(*body));
    } else if (const auto* bodies = std::get_if<std::vector<BodyId>>(&attr)) {
      std::vector<BodyId> list;
      for (const BodyId inner : *bodies) list.push_back(copy_body(inner));
      result.set(name, std::move(list));
    } else if (const auto* type = std::get_if<Type>(&attr)) {
      result.set(name, copy_type(*type));
    } else if (const auto* types = std::get_if<std::vector<Type>>(&attr)) {
      std::vector<Type> list;
      for (const Type& one : *types) list.push_back(copy_type(one));
      result.set(name, std::move(list));
    } else {
      result.set(name, attr);
    }
  }
  return result;
}

Type GraphCopy::copy_type(const Type& type) {
  Type copy = type;
  if (within_one_graph()) return copy;
  const auto move = [&](Dim& dim) {
    if (dim.symbol.valid()) dim.symbol = into_.symbol(from_.symbol(dim.symbol));
  };
  std::ranges::for_each(copy.shape, move);
  move(copy.count);
  if (type.element) copy.element = std::make_shared<const Type>(copy_type(*type.element));
  return copy;
}

BodyId GraphCopy::add_body(BodyId original) {
  const Body body = from_.body(original);
  const BodyId id = into_.add_body(body.name);
  into_.body(id).doc = body.doc;
  into_.body(id).metadata = body.metadata;
  return id;
}

ValueId GraphCopy::add_input(BodyId into, ValueId original) {
  const std::string name = from_.value(original).name;
  return into_.add_input(into, name, copy_type(from_.value(original).type));
}

ValueId GraphCopy::add_constant(BodyId into, ValueId original) {
  const Value value = from_.value(original);
  const ValueId id = into_.add_constant(into, value.name, value.constant);
  into_.value(id).type = copy_type(value.type);
  return id;
}

ValueId GraphCopy::add_result(BodyId into, ValueId original) {
  const std::string name = from_.value(original).name;
  return into_.add_value(into, name, copy_type(from_.value(original).type));
}

NodeId GraphCopy::add_node(Node copy, NodeId /*original*/) { return into_.add_node(std::move(copy)); }

}  // namespace finity
