#include "gradient/expand.h"

#include <algorithm>
#include <utility>

#include "gradient/gradient.h"
#include "ops/table/op.h"

namespace finity {

namespace {

bool is_gradient(const Node& node) {
  return node.op_type == "Gradient" && node.domain == "ai.onnx.preview.training" && node.body == Graph::kMain;
}

ValueId value_named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].body == Graph::kMain && graph.values()[i].name == name) return {static_cast<std::int32_t>(i)};
  }
  throw Error("no value is called '" + name + "'");
}

std::vector<std::string> names_of(const Node& node, std::string_view attr) {
  const Attr* found = node.attrs.find(attr);
  const auto* names = found != nullptr ? std::get_if<std::vector<std::string>>(found) : nullptr;
  return names != nullptr ? *names : std::vector<std::string>();
}

// What the node gave is given by copies of the gradients. The node itself becomes the first of them, so that none is
// left over.
void give_results(GraphBuilder& builder, NodeId id, const std::vector<ValueId>& found) {
  const std::vector<ValueId> outputs = builder.node(id).outputs;
  bool reused = false;
  for (std::size_t i = 0; i < outputs.size() && i < found.size(); ++i) {
    if (!outputs[i].valid()) continue;
    Node copy = node_of(op_named("Identity"), GraphWriter::kOpset);
    copy.name = builder.node(id).name;
    copy.body = Graph::kMain;
    copy.inputs = {found[i]};
    copy.outputs = {outputs[i]};
    copy.where = builder.node(id).where;
    if (!std::exchange(reused, true)) {
      builder.node(id) = std::move(copy);
      continue;
    }
    builder.value(outputs[i]).producer = {};
    builder.add_node(std::move(copy));
  }
}

void write_out(GraphWriter& writer, NodeId id) {
  const Node node = writer.graph().node(id);
  const std::vector<std::string> names = names_of(node, "xs");
  const Attr* of = node.attrs.find("y");
  const auto* output = of != nullptr ? std::get_if<std::string>(of) : nullptr;
  if (names.empty() || output == nullptr) throw Error("attribute 'xs' or 'y' is missing");
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < names.size(); ++i) {
    wanted.push_back(value_named(writer.graph(), names[i]));
    const bool same = i < node.inputs.size() && node.inputs[i] == wanted.back();
    if (!same) throw Unsupported("it asks for the gradient at another point than the graph computes");
  }
  const GradientResult gradient = add_gradient(writer, value_named(writer.graph(), *output), wanted);
  if (!gradient.stops.empty()) {
    const GradientStop& stop = gradient.stops.front();
    throw Unsupported(describe(writer.graph(), writer.graph().node(stop.node)) + ": " + stop.reason);
  }
  std::vector<ValueId> found = gradient.of;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i].valid()) found[i] = filled_like(writer, wanted[i], 0);
  }
  give_results(writer.builder(), id, found);
}

}  // namespace

Graph with_gradients_written_out(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), is_gradient)) return graph;
  GraphWriter writer(graph, infer_types(graph));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!is_gradient(graph.nodes()[i])) continue;
    try {
      write_out(writer, {static_cast<std::int32_t>(i)});
    } catch (const Error&) {
      // It stays what it is: an operator of which nothing is known, and reports say so.
    }
  }
  return std::move(writer).finish().graph;
}

}  // namespace finity
