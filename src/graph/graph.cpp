#include "graph/graph.h"

namespace finity {

SymbolId Graph::find_symbol(std::string_view name) const {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i] == name) return {static_cast<std::int32_t>(i)};
  }
  return {};
}

std::string qualified_op(const Node& node) {
  if (node.domain.empty()) return std::string(node.op_type);
  return std::string(node.domain) + "." + std::string(node.op_type);
}

std::string describe(const Graph& graph, const Node& node) {
  std::string text = "node ";
  if (!node.name.empty()) {
    text += "'" + node.name + "' ";
  } else if (!node.outputs.empty() && node.outputs.front().valid()) {
    text += "producing '" + graph.value(node.outputs.front()).name + "' ";
  }
  text += "(" + qualified_op(node) + ")";
  return node.gradient_of.valid() ? text + ", for the derivative of " + describe(graph, graph.node(node.gradient_of))
                                  : text;
}

namespace {

std::string to_string(const Graph& graph, const Dim& dim) {
  if (dim.known()) return std::to_string(dim.size);
  return dim.symbol.valid() ? graph.symbol(dim.symbol) : "?";
}

std::string shape_to_string(const Graph& graph, const Type& type) {
  if (!type.ranked) return "[...]";
  std::string text = "[";
  for (std::size_t i = 0; i < type.shape.size(); ++i) text += (i == 0 ? "" : ", ") + to_string(graph, type.shape[i]);
  return text + "]";
}

std::string element_to_string(const Graph& graph, const Type& type) {
  return type.element ? finity::to_string(graph, *type.element) : "?";
}

}  // namespace

std::string to_string(const Graph& graph, const Type& type) {
  const std::string dtype(type.dtype == DType::undefined ? "?" : name(type.dtype));
  switch (type.kind) {
    case Type::Kind::unknown: return "?";
    case Type::Kind::tensor: return dtype + shape_to_string(graph, type);
    case Type::Kind::sparse_tensor: return "sparse " + dtype + shape_to_string(graph, type);
    case Type::Kind::sequence: return "sequence(" + element_to_string(graph, type) + ")";
    case Type::Kind::optional: return "optional(" + element_to_string(graph, type) + ")";
    case Type::Kind::map: return "map(" + dtype + ", " + element_to_string(graph, type) + ")";
  }
  return "?";
}

}  // namespace finity
