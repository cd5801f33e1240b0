#include "graph/users.h"

#include <algorithm>

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

std::vector<ValueId> captures_of(const Graph& graph, const Attrs& attrs) {
  std::vector<ValueId> captures;
  for (const BodyId inner : bodies_of(attrs)) {
    const auto collect = [&](ValueId used) {
      if (used.valid() && graph.value(used).body != inner) captures.push_back(used);
    };
    for (const NodeId id : graph.body(inner).nodes) {
      std::ranges::for_each(graph.node(id).inputs, collect);
      std::ranges::for_each(graph.node(id).captures, collect);
    }
    std::ranges::for_each(graph.body(inner).outputs, collect);
  }
  std::ranges::sort(captures);
  captures.erase(std::unique(captures.begin(), captures.end()), captures.end());
  return captures;
}

}  // namespace finity
