#include "types/graph_writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "graph/rewrite.h"
#include "graph/users.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The axes of `from` to sum over, counted from its front; nullopt when the shapes do not tell.
std::optional<std::vector<std::int64_t>> repeated_axes(const Type& from, const Type& to) {
  if (!from.ranked || !to.ranked || to.shape.size() > from.shape.size()) return std::nullopt;
  const std::size_t extra = from.shape.size() - to.shape.size();
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < from.shape.size(); ++i) {
    if (i < extra) {
      axes.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    const Dim& wide = from.shape[i];
    const Dim& narrow = to.shape[i - extra];
    if (surely_equal(wide, narrow)) continue;
    if (!narrow.known() || narrow.size != 1) return std::nullopt;
    axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

}  // namespace

GraphWriter::GraphWriter(const Graph& graph, const Types& types) : built_(GraphBuilder(graph), types), names_(graph) {}

std::string GraphWriter::prefix() const {
  if (!gradient_of_.valid()) return "finity/";
  const Node& node = graph().node(gradient_of_);
  std::string name = node.name;
  for (const ValueId out : node.outputs) {
    if (name.empty() && out.valid()) name = graph().value(out).name;
  }
  return "gradient/" + name + "/";
}

std::vector<ValueId> GraphWriter::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                      std::size_t outputs) {
  Node node = TypedBuilder::node_named(op, std::move(inputs), std::move(attrs));
  node.outputs.resize(outputs, ValueId{0});
  return place(std::move(node));
}

std::vector<ValueId> GraphWriter::repeat(const OpCall& call, std::vector<ValueId> inputs, Attrs attrs) {
  Node node = node_of(*call.op, call.version);
  node.version = call.version;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  for (std::size_t i = 0; i < call.outputs.count(); ++i) {
    node.outputs.push_back(call.outputs.has(i) ? ValueId{0} : ValueId{});
  }
  return place(std::move(node));
}

// Its outputs are replaced by new values where they are valid.
std::vector<ValueId> GraphWriter::place(Node node) {
  node.body = current_body();
  for (ValueId& out : node.outputs) {
    if (out.valid()) out = add_result(node.body, node.op_type);
  }
  return graph().node(add_typed(std::move(node))).outputs;
}

ValueId GraphWriter::add_result(BodyId body, std::string_view op) {
  return builder().add_value(body, fresh_name(prefix() + std::string(op)));
}

NodeId GraphWriter::add_typed(Node node) {
  node.captures = captures_of(graph(), node.attrs);
  node.gradient_of = gradient_of_;
  if (gradient_of_.valid()) node.where = graph().node(gradient_of_).where;
  node.name.clear();
  for (const ValueId out : node.outputs) {
    if (node.name.empty() && out.valid()) node.name = graph().value(out).name;
  }
  return built_.add_node(std::move(node));
}

ValueId GraphWriter::constant(Tensor tensor) { return add_constant(current_body(), make_constant(std::move(tensor))); }

ValueId GraphWriter::add_constant(BodyId body, ConstantPtr constant) {
  return built_.add_constant(body, fresh_name(prefix() + "constant"), std::move(constant));
}

BodyId GraphWriter::add_body() { return builder().add_body(fresh_name(prefix() + "body")); }

BodyId GraphWriter::begin_body() { return built_.begin_body(fresh_name(prefix() + "body")); }

ValueId GraphWriter::add_argument(BodyId body, const Type& type) {
  return built_.add_input(body, fresh_name(prefix() + "argument"), type);
}

// Copies are named like everything else that is added, and typed at once.
class GraphWriter::TypedCopy final : public GraphCopy {
 public:
  explicit TypedCopy(GraphWriter& writer) : GraphCopy(writer.graph(), writer.builder()), writer_(writer) {}

 private:
  BodyId add_body(BodyId /*original*/) override { return writer_.add_body(); }
  ValueId add_input(BodyId into, ValueId original) override {
    return writer_.add_argument(into, writer_.type(original));
  }
  ValueId add_constant(BodyId into, ValueId original) override {
    return writer_.add_constant(into, from().value(original).constant);
  }
  ValueId add_result(BodyId into, ValueId original) override {
    return writer_.add_result(into, from().node(from().value(original).producer).op_type);
  }
  NodeId add_node(Node copy, NodeId /*original*/) override { return writer_.add_typed(std::move(copy)); }

  GraphWriter& writer_;
};

std::vector<ValueId> GraphWriter::copy_body(BodyId body, std::span<const ValueId> inputs) {
  return TypedCopy(*this).copy_contents(body, inputs, current_body());
}

ValueId GraphWriter::add_input(std::string name, Type type) {
  return built_.add_input(Graph::kMain, fresh_name(name), std::move(type));
}

// An output that is also read elsewhere keeps its name unless another is asked for.
void GraphWriter::add_output(ValueId id, std::string name) {
  if (!name.empty()) id = add("Identity", {id});
  if (!name.empty()) builder().value(id).name = fresh_name(std::move(name));
  builder().add_output(Graph::kMain, id);
}

void GraphWriter::set_outputs(std::vector<ValueId> outputs) {
  builder().body(Graph::kMain).outputs = std::move(outputs);
}

ValueId GraphWriter::sum_to(ValueId value, ValueId like) {
  const std::optional<std::vector<std::int64_t>> axes = repeated_axes(type(value), type(like));
  if (!axes) return add("finity:SumTo", {value, like});
  if (axes->empty()) return value;
  const std::size_t extra = type(value).shape.size() - type(like).shape.size();
  const auto summed = [&](ValueId from, std::vector<std::int64_t> over, std::int64_t keep) {
    if (over.empty()) return from;
    Attrs attrs;
    attrs.set("keepdims", keep);
    const Dims dims = {static_cast<std::int64_t>(over.size())};
    return add("ReduceSum", {from, constant(from_elements<std::int64_t>(DType::int64, dims, over))}, std::move(attrs));
  };
  // First the axes that stay with size 1, so that the numbers of the others still hold.
  std::vector<std::int64_t> leading(axes->begin(), axes->begin() + static_cast<std::ptrdiff_t>(extra));
  std::vector<std::int64_t> kept(axes->begin() + static_cast<std::ptrdiff_t>(extra), axes->end());
  return summed(summed(value, std::move(kept), 1), std::move(leading), 0);
}

}  // namespace finity
