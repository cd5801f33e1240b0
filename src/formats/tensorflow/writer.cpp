#include "formats/tensorflow/writer.h"

#include <algorithm>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

GraphBuilder empty_graph(const std::string& file) {
  GraphBuilder builder;
  builder.info().file = file;
  builder.info().ir_version = 10;
  builder.info().producer_name = "tensorflow";
  builder.info().opsets = {{"", Writer::kOpset}, {"finity", 1}};
  builder.add_body("main");
  return builder;
}

}  // namespace

Writer::Writer(const std::string& file) : built_(empty_graph(file), Types{}) {}

void Writer::set_node(std::string name, std::uint64_t offset) {
  name_ = std::move(name);
  offset_ = offset;
}

// Numbers are put behind numbers, unlike those of UniqueNames: names are part of the fingerprints that people keep.
std::string Writer::fresh(std::string name) {
  const int number = ++names_[name];
  if (number == 1) return name;
  std::string numbered = name + "_" + std::to_string(number);
  return fresh(std::move(numbered));
}

std::vector<ValueId> Writer::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::size_t outputs) {
  Node node = TypedBuilder::node_named(op, std::move(inputs), std::move(attrs));
  node.outputs.resize(outputs);
  return place(std::move(node));
}

std::vector<ValueId> Writer::place(Node node) {
  node.body = current_body();
  node.name = fresh(name_ + "/" + std::string(node.op_type));
  node.where.offset = offset_;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    node.outputs[i] = builder().add_value(node.body, i == 0 ? node.name : node.name + ":" + std::to_string(i));
  }
  const std::size_t before = builder().node_count();
  try {
    return graph().node(built_.add_node(std::move(node))).outputs;
  } catch (...) {
    // Nobody will use its results; the body must not hold a node that contradicts the table.
    std::vector<NodeId>& nodes = builder().body(current_body()).nodes;
    if (!nodes.empty() && nodes.back().at() >= before) nodes.pop_back();
    throw;
  }
}

std::vector<ValueId> Writer::add_unknown(std::string_view op, std::vector<ValueId> inputs,
                                         const std::vector<Type>& outputs) {
  Node node;
  node.op_type = builder().intern(op);
  node.domain = "tf";
  node.version = 1;
  node.inputs = std::move(inputs);
  node.body = current_body();
  node.name = name_;
  node.where.offset = offset_;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::string name = fresh(i == 0 ? node.name : node.name + ":" + std::to_string(i));
    node.outputs.push_back(builder().add_value(node.body, std::move(name), outputs[i]));
  }
  return graph().node(built_.add_node(std::move(node))).outputs;
}

ValueId Writer::constant(ConstantPtr constant, const std::string& name) {
  return built_.add_constant(Graph::kMain, fresh(name), std::move(constant));
}

ValueId Writer::ints(const std::vector<std::int64_t>& numbers) {
  ValueId& id = ints_[numbers];
  if (!id.valid()) id = constant(make_constant(Tensor::vector_of(numbers)), "finity/ints");
  return id;
}

ValueId Writer::scalar(double number, DType dtype) {
  ValueId& id = scalars_[{dtype, std::to_string(number) + std::string(reinterpret_cast<const char*>(&number), 8)}];
  if (!id.valid()) {
    const double one[] = {number};
    id = constant(make_constant(from_elements<double>(dtype, {}, one)), "finity/scalar");
  }
  return id;
}

ValueId Writer::input(const std::string& name, Type type) {
  const ValueId id = built_.add_input(Graph::kMain, fresh(name), type);
  for (Dim& dim : type.shape) {
    if (!dim.known()) dim.least = std::max<std::int64_t>(dim.least, 1);
  }
  built_.set_type(id, std::move(type));
  return id;
}

BodyId Writer::begin_body(const std::string& name) { return built_.begin_body(fresh(name)); }

ValueId Writer::body_input(const std::string& name, Type type) {
  return built_.add_input(current_body(), fresh(name), std::move(type));
}

bool Writer::visible(ValueId id) const {
  const BodyId body = graph().value(id).body;
  return body == Graph::kMain || std::ranges::find(built_.open_bodies(), body) != built_.open_bodies().end();
}

bool Writer::declare(ValueId id, const Type& declared) {
  const Type& computed = type(id);
  if (!declared.ranked || !computed.is_tensor()) return true;
  if (computed.ranked && computed.shape.size() != declared.shape.size()) return false;
  Type both = computed;
  if (!computed.ranked) both.shape.assign(declared.shape.size(), Dim{});
  both.ranked = true;
  for (std::size_t i = 0; i < both.shape.size(); ++i) {
    Dim& dim = both.shape[i];
    const Dim& said = declared.shape[i];
    if (!said.known()) continue;
    if (said.size < dim.least_size() || said.size > dim.most_size()) return false;
    if (!dim.symbol.valid()) dim = said;
  }
  if (both.shape != computed.shape || !computed.ranked) set_type(id, std::move(both));
  return true;
}

void Writer::name_sizes(ValueId id) {
  Type named = type(id);
  bool changed = false;
  for (std::size_t i = 0; named.ranked && i < named.shape.size(); ++i) {
    Dim& dim = named.shape[i];
    if (dim.known() || dim.symbol.valid()) continue;
    dim.symbol = builder().symbol(graph().value(id).name + "[" + std::to_string(i) + "]");
    changed = true;
  }
  if (changed) set_type(id, std::move(named));
}

void Writer::set_type(ValueId id, Type type) {
  builder().value(id).type = type;
  built_.set_type(id, std::move(type));
}

void Writer::name_result(ValueId id, const std::string& name, std::size_t first_node) {
  const NodeId producer = graph().value(id).producer;
  if (!producer.valid() || producer.at() < first_node) return;
  if (graph().node(producer).outputs.front() != id) return;
  const std::string plain = fresh(name);
  builder().node(producer).name = plain;
  const std::vector<ValueId> outputs = graph().node(producer).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    builder().value(outputs[i]).name = i == 0 ? plain : plain + ":" + std::to_string(i);
  }
}

Graph Writer::finish(const std::vector<ValueId>& outputs) && {
  builder().body(Graph::kMain).outputs = outputs;
  return std::move(built_).finish().graph;
}

}  // namespace finity::tensorflow
