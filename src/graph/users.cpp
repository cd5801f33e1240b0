#include "graph/users.h"

namespace finity {

namespace {

template <class F>
void for_each_use(const Node& node, F f) {
  for (const ValueId input : node.inputs) {
    if (input.valid()) f(input);
  }
  for (const ValueId captured : node.captures) f(captured);
}

}  // namespace

Users users_of(const Graph& graph) {
  Users users(graph.values().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for_each_use(graph.nodes()[i], [&](ValueId id) { users[id.at()].push_back({static_cast<std::int32_t>(i)}); });
  }
  for (const Body& body : graph.bodies()) {
    for (const ValueId output : body.outputs) {
      if (output.valid()) users[output.at()].push_back({});
    }
  }
  return users;
}

std::vector<int> count_uses(const Graph& graph, const Body& body) {
  std::vector<int> uses(graph.values().size(), 0);
  for (const NodeId id : body.nodes) for_each_use(graph.node(id), [&](ValueId value) { ++uses[value.at()]; });
  for (const ValueId output : body.outputs) {
    if (output.valid()) ++uses[output.at()];
  }
  return uses;
}

}  // namespace finity
