#include "ops/control/loop_states.h"

#include <algorithm>

#include "ops/control/loops.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool is(const Node& node, std::string_view op) { return node.domain.empty() && node.op_type == op; }

ValueId behind_identities(const Graph& graph, ValueId value) {
  while (graph.value(value).producer.valid()) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!is(node, "Identity")) break;
    value = node.inputs.front();
  }
  return value;
}

// The only use of a value in a body; null when there is none, or another.
const Node* only_user(const Graph& graph, const Body& body, ValueId value) {
  const Node* result = nullptr;
  std::ptrdiff_t uses = std::ranges::count(body.outputs, value);
  for (const NodeId id : body.nodes) {
    const Node& node = graph.node(id);
    const std::ptrdiff_t here = std::ranges::count(node.inputs, value) + std::ranges::count(node.captures, value);
    if (here > 0) result = &node;
    uses += here;
  }
  return uses == 1 ? result : nullptr;
}

}  // namespace

ListUse list_use(const BuildCall& call, const LoopParts& parts, std::size_t state) {
  const Graph& graph = call.bodies();
  const Body& body = graph.body(parts.body);
  const ValueId in = body.inputs[parts.first_input + state], out = body.outputs[parts.first_output + state];
  if (behind_identities(graph, out) == in) return ListUse::kept;
  ValueId at = in;
  while (at != out) {
    const Node* user = only_user(graph, body, at);
    const bool hands_on = user != nullptr && (is(*user, "SequenceInsert") || is(*user, "Identity"));
    if (!hands_on || user->inputs.front() != at) return ListUse::other;
    at = user->outputs.front();
  }
  const bool read = std::ranges::any_of(body.nodes, [&](NodeId id) {
    const Node& node = graph.node(id);
    return std::ranges::count(node.inputs, at) + std::ranges::count(node.captures, at) > 0;
  });
  return read || std::ranges::count(body.outputs, at) != 1 ? ListUse::other : ListUse::grown;
}

bool has_steady_states(const BuildCall& call, const LoopParts& parts) {
  const std::vector<ValueId>& inputs = call.bodies().body(parts.body).inputs;
  for (std::size_t i = 0; i < parts.states; ++i) {
    const Type& type = call.type(inputs[parts.first_input + i]);
    if (type.kind == Type::Kind::sequence && list_use(call, parts, i) != ListUse::other) continue;
    const auto steady = [](const Dim& dim) { return dim.known() || dim.symbol.valid(); };
    const bool told = parts.first_input == 0 || (type.ranked && std::ranges::all_of(type.shape, steady));
    if (!type.is_tensor() || !told) return false;
  }
  return true;
}

std::optional<std::int64_t> known_iterations(const BuildCall& call, BodyId body) {
  const auto number = [&](std::size_t i) -> std::optional<std::int64_t> {
    const Tensor* known = call.has_input(i) ? call.known(call.in(i)) : nullptr;
    if (known == nullptr || known->size() != 1) return std::nullopt;
    return element_as_int(*known, 0);
  };
  const std::optional<std::int64_t> limit = number(0);
  if (!limit || !condition_counts(call)) return limit;
  const std::optional<std::int64_t> start = number(1);
  if (start == 0) return 0;
  if (!start || !keeps_condition(call, call.bodies().body(body))) return std::nullopt;
  return limit;
}

}  // namespace finity
