#include "ops/table/op_call.h"

#include "base/error.h"
#include "ops/table/op.h"

namespace finity {

namespace {

int loops_around(const Graph& graph, BodyId body) {
  int loops = 0;
  while (body.valid() && graph.body(body).owner.valid()) {
    const Node& owner = graph.node(graph.body(body).owner);
    if (owner.op == nullptr || !owner.op->traits.branches) ++loops;
    body = owner.body;
  }
  return loops;
}

}  // namespace

OpCall call_of(const Graph& graph, const Node& node) {
  return {.op = node.op,
          .version = node.version,
          .attrs = &node.attrs,
          .inputs = Places(node.inputs),
          .outputs = Places(node.outputs),
          .bodies = &graph,
          .loops = loops_around(graph, node.body)};
}

Node node_of(const OpDef& op, int opset) {
  Node node;
  node.op = &op;
  node.op_type = op.identity.name;
  node.domain = op.identity.domain;
  node.version = op.identity.domain.empty() ? opset : 1;
  return node;
}

const OpDef& op_named(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view domain = colon == std::string_view::npos ? std::string_view() : name.substr(0, colon);
  const std::string_view plain = colon == std::string_view::npos ? name : name.substr(colon + 1);
  const OpDef* op = find_op(domain, plain);
  if (op == nullptr) throw Error("no op is called '" + std::string(name) + "'");
  return *op;
}

}  // namespace finity
