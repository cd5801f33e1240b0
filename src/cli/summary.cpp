#include "cli/summary.h"

#include <algorithm>
#include <set>

#include "ops/table/op.h"

namespace finity {

namespace {

std::vector<Summary::Port> ports(const Graph& graph, const Types& types, const std::vector<ValueId>& ids) {
  std::vector<Summary::Port> result;
  for (const ValueId id : ids) {
    const Value& value = graph.value(id);
    result.push_back({value.name, to_string(graph, types[id]), value.constant != nullptr && !value.producer.valid()});
  }
  return result;
}

std::vector<std::string> dynamic_dims(const Graph& graph, const Types& types) {
  std::set<std::string> names;
  for (const ValueId id : graph.main().inputs) {
    if (graph.value(id).constant) continue;
    for (const Dim& dim : types[id].shape) {
      if (!dim.known()) names.insert(dim.symbol.valid() ? graph.symbol(dim.symbol) : "?");
    }
  }
  return {names.begin(), names.end()};
}

void add_parameter(Summary& summary, const Constant& constant) {
  const std::int64_t count = element_count(constant.dims());
  ++summary.parameter_tensors;
  summary.parameters += count;
  summary.parameter_bytes +=
      (static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(info(constant.dtype()).bits) + 7) / 8;
  summary.parameter_dtypes[std::string(name(constant.dtype()))] += count;
  if (!constant.missing().empty()) ++summary.missing_tensors;
}

std::string reason_not_modelled(const Node& node) {
  if (node.op != nullptr) return node.op->meaning.eval != nullptr ? "" : "typed, but cannot be run";
  if (node.domain.empty()) {
    for (const LeftOut& entry : left_out_ops()) {
      if (entry.name == node.op_type) return std::string(entry.reason);
    }
  }
  return "not in the op table";
}

std::vector<Summary::OpCount> count_ops(const Graph& graph) {
  std::map<std::string, Summary::OpCount> counts;
  for (const Node& node : graph.nodes()) {
    Summary::OpCount& entry = counts[qualified_op(node)];
    if (entry.nodes++ == 0) {
      entry.op = qualified_op(node);
      entry.not_modelled = reason_not_modelled(node);
    }
  }
  std::vector<Summary::OpCount> result;
  for (auto& [name, entry] : counts) result.push_back(std::move(entry));
  std::ranges::stable_sort(result, [](const auto& a, const auto& b) { return a.nodes > b.nodes; });
  return result;
}

}  // namespace

Summary summarize(const Graph& graph, const Types& types) {
  Summary summary;
  summary.inputs = ports(graph, types, graph.main().inputs);
  summary.outputs = ports(graph, types, graph.main().outputs);
  summary.dynamic_dims = dynamic_dims(graph, types);
  summary.nodes = static_cast<std::int64_t>(graph.nodes().size());
  summary.subgraphs = static_cast<std::int64_t>(graph.bodies().size()) - 1;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.constant) add_parameter(summary, *value.constant);
    if (!value.producer.valid()) continue;
    if (types.of[i].kind == Type::Kind::unknown) ++summary.untyped_values;
    else if (types.of[i].dtype != DType::undefined) ++summary.value_dtypes[std::string(name(types.of[i].dtype))];
  }
  summary.ops = count_ops(graph);
  return summary;
}

}  // namespace finity
