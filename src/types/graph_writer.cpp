#include "types/graph_writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
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

GraphWriter::GraphWriter(const Graph& graph, const Types& types) : builder_(graph), types_(builder_.peek(), types) {
  for (const Value& value : graph.values()) names_.emplace(value.name, 1);
}

std::string GraphWriter::fresh_name(std::string name) {
  std::size_t& number = names_[name];
  if (number == 0) {
    number = 1;
    return name;
  }
  // References into the map outlive what is added to it.
  while (true) {
    std::string numbered = name + "_" + std::to_string(++number);
    if (names_.emplace(numbered, 1).second) return numbered;
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
  node.op_type = def.identity.name;
  node.domain = def.identity.domain;
  node.version = def.identity.domain.empty() ? kOpset : 1;
  node.inputs = std::move(inputs);
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  node.attrs = std::move(attrs);
  node.outputs.resize(outputs, ValueId{0});
  return place(std::move(node));
}

std::vector<ValueId> GraphWriter::repeat(const OpCall& call, std::vector<ValueId> inputs, Attrs attrs) {
  Node node;
  node.op = call.op;
  node.op_type = call.op->identity.name;
  node.domain = call.op->identity.domain;
  node.version = call.version;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  for (std::size_t i = 0; i < call.outputs.count(); ++i) {
    node.outputs.push_back(call.outputs.has(i) ? ValueId{0} : ValueId{});
  }
  return place(std::move(node));
}

// What its subgraphs use of the bodies around them.
std::vector<ValueId> GraphWriter::captures_of(const Node& node) const {
  std::vector<ValueId> result;
  for (const BodyId inner : bodies_of(node.attrs)) {
    const auto collect = [&](ValueId used) {
      if (used.valid() && graph().value(used).body != inner) result.push_back(used);
    };
    for (const NodeId id : graph().body(inner).nodes) {
      std::ranges::for_each(graph().node(id).inputs, collect);
      std::ranges::for_each(graph().node(id).captures, collect);
    }
    std::ranges::for_each(graph().body(inner).outputs, collect);
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Its outputs are replaced by new values where they are valid.
std::vector<ValueId> GraphWriter::place(Node node) {
  node.body = current_body();
  node.captures = captures_of(node);
  node.gradient_of = gradient_of_;
  if (gradient_of_.valid()) node.where = graph().node(gradient_of_).where;
  node.name.clear();
  for (ValueId& out : node.outputs) {
    if (!out.valid()) continue;
    out = builder_.add_value(node.body, fresh_name(prefix() + std::string(node.op_type)));
    if (node.name.empty()) node.name = graph().value(out).name;
  }
  const NodeId id = builder_.add_node(std::move(node));
  types_.add_node(graph().node(id));
  return graph().node(id).outputs;
}

ValueId GraphWriter::constant(Tensor tensor) {
  const ValueId id =
      builder_.add_constant(current_body(), fresh_name(prefix() + "constant"), make_constant(std::move(tensor)));
  types_.add_constant(id);
  return id;
}

BodyId GraphWriter::begin_body() {
  open_.push_back(builder_.add_body(fresh_name(prefix() + "body")));
  return open_.back();
}

ValueId GraphWriter::add_body_input(const Type& type) {
  // A copy: the type may be that of a value, and values move when one is added.
  Type own = type;
  const ValueId id = builder_.add_input(current_body(), fresh_name(prefix() + "argument"), own);
  types_.set(id, std::move(own));
  return id;
}

void GraphWriter::end_body(std::vector<ValueId> outputs) {
  builder_.body(current_body()).outputs = std::move(outputs);
  open_.pop_back();
}

std::vector<ValueId> GraphWriter::copy_body(BodyId body, std::span<const ValueId> inputs) {
  Copies copies;
  const std::vector<ValueId> own = graph().body(body).inputs;
  if (own.size() != inputs.size()) throw Error("a body is copied with another number of inputs");
  for (std::size_t i = 0; i < own.size(); ++i) copies[own[i]] = inputs[i];
  copy_nodes(body, copies);
  std::vector<ValueId> outputs = graph().body(body).outputs;
  for (ValueId& out : outputs) out = copied(copies, out);
  return outputs;
}

ValueId GraphWriter::copied(const Copies& copies, ValueId id) {
  const auto found = copies.find(id);
  return found == copies.end() ? id : found->second;
}

void GraphWriter::copy_nodes(BodyId body, Copies& copies) {
  const Body original = graph().body(body);  // a copy: bodies may be added
  for (const ValueId id : original.constants) {
    if (copies.contains(id)) continue;  // a default of an input
    const ConstantPtr constant = graph().value(id).constant;
    const ValueId copy = builder_.add_constant(current_body(), fresh_name(prefix() + "constant"), constant);
    types_.add_constant(copy);
    copies[id] = copy;
  }
  for (const NodeId id : original.nodes) {
    Node node = graph().node(id);
    const std::vector<ValueId> results = node.outputs;
    for (ValueId& in : node.inputs) in = copied(copies, in);
    node.attrs = copy_attrs(node.attrs, copies);
    const std::vector<ValueId> outputs = place(std::move(node));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].valid()) copies[results[i]] = outputs[i];
    }
  }
}

Attrs GraphWriter::copy_attrs(const Attrs& attrs, Copies& copies) {
  Attrs result;
  for (const auto& [name, attr] : attrs) {
    if (const auto* body = std::get_if<BodyId>(&attr)) {
      result.set(name, copy_inner(*body, copies));
    } else if (const auto* bodies = std::get_if<std::vector<BodyId>>(&attr)) {
      std::vector<BodyId> list;
      for (const BodyId inner : *bodies) list.push_back(copy_inner(inner, copies));
      result.set(name, std::move(list));
    } else {
      result.set(name, attr);
    }
  }
  return result;
}

BodyId GraphWriter::copy_inner(BodyId body, Copies& copies) {
  const Body original = graph().body(body);
  const BodyId copy = begin_body();
  for (const ValueId in : original.inputs) copies[in] = add_body_input(type(in));
  copy_nodes(body, copies);
  std::vector<ValueId> outputs = original.outputs;
  for (ValueId& out : outputs) out = copied(copies, out);
  end_body(std::move(outputs));
  return copy;
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
