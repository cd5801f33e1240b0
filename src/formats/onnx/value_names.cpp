#include "formats/onnx/value_names.h"

namespace finity::onnx {

ValueNames::ValueNames(const Graph& graph) : names_(graph.values().size()) {
  std::vector<std::vector<ValueId>> values_of(graph.bodies().size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    values_of[graph.values()[i].body.at()].push_back({static_cast<std::int32_t>(i)});
  }
  // A body comes after those around it, so the names it captures are settled.
  for (std::size_t i = 0; i < values_of.size(); ++i) {
    Taken taken = captured_names(graph, {static_cast<std::int32_t>(i)});
    for (const ValueId id : values_of[i]) name(graph.value(id), id, taken);
  }
}

ValueNames::Taken ValueNames::captured_names(const Graph& graph, BodyId body) const {
  Taken taken;
  if (body == Graph::kMain) return taken;
  const auto collect = [&](const std::vector<ValueId>& values) {
    for (const ValueId id : values) {
      if (id.valid() && graph.value(id).body != body) taken.names.insert(names_[id.at()]);
    }
  };
  for (const NodeId id : graph.body(body).nodes) {
    collect(graph.node(id).inputs);
    collect(graph.node(id).captures);
  }
  collect(graph.body(body).outputs);
  return taken;
}

void ValueNames::name(const Value& value, ValueId id, Taken& taken) {
  std::string_view candidate = value.name;
  const std::string base = value.name.empty() ? "value" : value.name;
  while (candidate.empty() || taken.names.contains(candidate)) {
    int& number = taken.last_number.try_emplace(value.name, value.name.empty() ? 0 : 1).first->second;
    candidate = made_.emplace_back(base + "_" + std::to_string(++number));
  }
  names_[id.at()] = candidate;
  taken.names.insert(candidate);
}

}  // namespace finity::onnx
