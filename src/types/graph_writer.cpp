#include "types/graph_writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// "finity:SumTo" or a name of the default domain.
const OpDef& op_named(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view domain = colon == std::string_view::npos ? std::string_view() : name.substr(0, colon);
  const std::string_view plain = colon == std::string_view::npos ? name : name.substr(colon + 1);
  const OpDef* op = find_op(domain, plain);
  if (op == nullptr) throw Error("no op is called '" + std::string(name) + "'");
  return *op;
}

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

GraphWriter::GraphWriter(const Graph& graph, const Types& types) : builder_(graph), types_(builder_.peek(), types) {
  for (const Value& value : graph.values()) names_.insert(value.name);
}

std::string GraphWriter::fresh_name(std::string name) {
  if (names_.insert(name).second) return name;
  for (std::size_t number = 2;; ++number) {
    std::string numbered = name + "_" + std::to_string(number);
    if (names_.insert(numbered).second) return numbered;
  }
}

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
  const OpDef& def = op_named(op);
  Node node;
  node.op = &def;
  node.op_type = def.name;
  node.domain = def.domain;
  node.version = def.domain.empty() ? kOpset : 1;
  node.inputs = std::move(inputs);
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  node.attrs = std::move(attrs);
  node.body = Graph::kMain;
  node.gradient_of = gradient_of_;
  if (gradient_of_.valid()) node.where = graph().node(gradient_of_).where;
  for (std::size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(builder_.add_value(Graph::kMain, fresh_name(prefix() + std::string(def.name))));
  }
  node.name = graph().value(node.outputs.front()).name;
  const NodeId id = builder_.add_node(std::move(node));
  types_.add_node(graph().node(id));
  return graph().node(id).outputs;
}

ValueId GraphWriter::constant(Tensor tensor) {
  const ValueId id =
      builder_.add_constant(Graph::kMain, fresh_name(prefix() + "constant"), make_constant(std::move(tensor)));
  types_.add_constant(id);
  return id;
}

const Tensor* GraphWriter::known(ValueId id) const {
  const std::optional<Tensor>& known = types_.types().known[id.at()];
  return known ? &*known : nullptr;
}

ValueId GraphWriter::add_input(std::string name, Type type) {
  const ValueId id = builder_.add_input(Graph::kMain, fresh_name(std::move(name)), type);
  types_.set(id, std::move(type));
  return id;
}

// An output that is also read elsewhere keeps its name unless another is asked for.
void GraphWriter::add_output(ValueId id, std::string name) {
  if (!name.empty()) id = add("Identity", {id});
  if (!name.empty()) builder_.value(id).name = fresh_name(std::move(name));
  builder_.add_output(Graph::kMain, id);
}

void GraphWriter::set_outputs(std::vector<ValueId> outputs) {
  builder_.body(Graph::kMain).outputs = std::move(outputs);
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

GraphWriter::Result GraphWriter::finish() && {
  Types types = std::move(types_).take();
  Graph graph = std::move(builder_).build();
  return {std::move(graph), std::move(types)};
}

}  // namespace finity
