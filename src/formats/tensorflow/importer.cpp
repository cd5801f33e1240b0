#include "formats/tensorflow/importer.h"

#include <algorithm>

#include "formats/tensorflow/output_names.h"

namespace finity::tensorflow {

namespace {

// Nodes that a file may ask for, with calls inlined and loops written twice: a small file can ask for very many.
std::size_t node_limit(const GraphDef& graph) {
  std::size_t count = graph.nodes.size();
  for (const auto& [name, function] : graph.functions) count += function.nodes.size();
  return 50'000 + 16 * count;
}

// Functions that no node calls, by name.
std::vector<std::string> uncalled_functions(const GraphDef& graph) {
  std::unordered_set<std::string_view> called;
  const auto look_at = [&](const std::vector<NodeDef>& nodes) {
    for (const NodeDef& node : nodes) {
      called.insert(node.op);
      for (const auto& [name, bytes] : node.attrs) {
        const AttrValue value = read_attr_value(bytes);
        const auto found = graph.functions.find(value.function);
        if (found != graph.functions.end()) called.insert(found->first);
      }
    }
  };
  look_at(graph.nodes);
  for (const auto& [name, function] : graph.functions) look_at(function.nodes);
  std::vector<std::string> uncalled;
  for (const auto& [name, function] : graph.functions) {
    if (!called.contains(name)) uncalled.emplace_back(name);
  }
  std::ranges::sort(uncalled);
  return uncalled;
}

}  // namespace

Importer::Importer(const GraphDef& graph, const std::string& file, std::vector<Note>& notes)
    : graph_(graph), notes_(notes), writer_(file), most_nodes_(node_limit(graph)), initialisers_(graph) {}

Graph Importer::run() && {
  const Program program = make_program(graph_, graph_.nodes, nullptr);
  Scope scope{.program = program};
  scope.values.resize(program.nodes.size());
  scope_ = &scope;
  lower_units(scope, program.frames.front().order);
  const auto nodes = [](const Unknowns& noted) {
    const std::string more = noted.count > 1 ? " and " + std::to_string(noted.count - 1) + " more" : "";
    return "node '" + noted.first + "'" + more;
  };
  for (const auto& [op, unknowns] : unknowns_) {
    notes_.push_back({nodes(unknowns) + " (" + op + ")", unknowns.reason});
  }
  if (contradictions_.count > 0) notes_.push_back({nodes(contradictions_), contradictions_.reason});
  const std::vector<ValueId> outputs = find_outputs();
  if (outputs.empty() && writer_.graph().nodes().empty()) refuse_empty();
  return std::move(writer_).finish(outputs);
}

// A SavedModel without signatures holds its programs in functions that only Python calls.
void Importer::refuse_empty() const {
  const std::vector<std::string> uncalled = uncalled_functions(graph_);
  if (uncalled.empty()) return;
  const std::string more = uncalled.size() > 1 ? " and " + std::to_string(uncalled.size() - 1) + " more" : "";
  throw Error("nothing is computed but in functions that no node calls ('" + uncalled.front() + "'" + more +
              "); save the model with signatures");
}

// What nodes of the main graph compute and nobody uses.
std::vector<ValueId> Importer::find_outputs() const {
  const Graph& graph = writer_.graph();
  std::vector<bool> used(graph.values().size(), false);
  const auto use = [&](ValueId id) {
    if (id.valid()) used[id.at()] = true;
  };
  for (const Node& node : graph.nodes()) std::ranges::for_each(node.inputs, use);
  for (const Body& body : graph.bodies()) std::ranges::for_each(body.outputs, use);
  std::vector<ValueId> outputs;
  for (const ValueId id : given_) {
    if (used[id.at()] || !graph.value(id).producer.valid()) continue;
    used[id.at()] = true;
    outputs.push_back(id);
  }
  return outputs;
}

void Importer::charge() {
  if (++charged_ > most_nodes_) {
    throw Error("its functions and loops expand to more than " + std::to_string(most_nodes_) + " nodes");
  }
}

std::string Importer::full_name(const NodeDef& node) const { return scope_->prefix + std::string(node.name); }

int Importer::add_state(State state) {
  states_.push_back(std::move(state));
  return static_cast<int>(states_.size()) - 1;
}

std::optional<AttrValue> Importer::attr(const NodeDef& node, std::string_view name) const {
  const std::vector<NamedBytes>* attrs = &node.attrs;
  std::string_view wanted = name;
  const Scope* scope = scope_;
  for (int steps = 0; steps < 64; ++steps) {
    const auto found = std::ranges::find(*attrs, wanted, &NamedBytes::first);
    if (found == attrs->end()) return std::nullopt;
    AttrValue value = read_attr_value(found->second);
    if (value.kind != AttrValue::Kind::placeholder) return value;
    if (scope == nullptr || scope->attrs == nullptr) return std::nullopt;
    wanted = value.placeholder;
    attrs = scope->attrs;
    scope = scope->caller;
  }
  return std::nullopt;
}

TfValue Importer::value_of(const Scope& scope, const Edge& edge) const {
  const std::vector<TfValue>& values = scope.values[static_cast<std::size_t>(edge.node)];
  const auto output = static_cast<std::size_t>(edge.output);
  return output < values.size() ? values[output] : TfValue{};
}

std::vector<TfValue> Importer::inputs_of(const Scope& scope, int node) const {
  std::vector<TfValue> result;
  for (const Edge& edge : scope.program.nodes[static_cast<std::size_t>(node)].inputs) {
    result.push_back(value_of(scope, edge));
    // What was computed in a body that is not open is out of reach.
    if (result.back().id.valid() && !writer_.visible(result.back().id)) result.back().id = {};
  }
  return result;
}

void Importer::set_values(Scope& scope, int node, std::vector<TfValue> values) {
  if (writer_.depth() == 0) {
    for (const TfValue& value : values) {
      if (value.id.valid()) given_.push_back(value.id);
    }
  }
  scope.values[static_cast<std::size_t>(node)] = std::move(values);
}

void Importer::lower_units(Scope& scope, const std::vector<Unit>& order) {
  for (const Unit& unit : order) {
    if (unit.frame >= 0) lower_loop(scope, unit.frame);
    else if (scope.program.nodes[static_cast<std::size_t>(unit.node)].branch.node < 0) lower_node(scope, unit.node);
  }
}

void Importer::lower_node(Scope& scope, int number) {
  charge();
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  writer_.set_node(scope.prefix + std::string(node.def->name), node.def->offset);
  if (lower_flow_node(scope, number)) return;
  // What a checkpoint gives to variables is what their weights are already.
  if (node.only_assigned && node.def->op.starts_with("Restore")) return;
  const std::vector<TfValue> inputs = inputs_of(scope, number);
  const std::size_t depth = writer_.depth();
  const std::size_t before = writer_.graph().body(writer_.current_body()).nodes.size();
  const std::size_t open_loops = loops_.size();
  Scope* const outer = scope_;
  try {
    if (!lower_call(scope, number, inputs)) lower_by_table(scope, number, inputs);
  } catch (const Error& error) {
    if (charged_ > most_nodes_) throw;
    // What it added so far is taken back, and the node stays unknown.
    scope_ = outer;
    writer_.return_to(depth);
    loops_.resize(open_loops);
    writer_.builder().body(writer_.current_body()).nodes.resize(before);
    note_unknown(*node.def, error.what());
    writer_.set_node(scope.prefix + std::string(node.def->name), node.def->offset);
    lower_unknown(scope, number, inputs);
  }
}

// Ops on texts are not modelled: no number depends on them but those that compare or measure them, which come from
// outside.
bool Importer::lower_text(TfCall& call) {
  constexpr std::int64_t kText = 7;
  if (call.integer("T", 0) != kText && call.integer("Tparams", 0) != kText) return false;
  DType dtype = DType::undefined;
  if (call.op() == "Equal" || call.op() == "NotEqual") dtype = DType::boolean;
  if (call.op() == "Shape" || call.op() == "Size" || call.op() == "Rank") {
    dtype = call.has_attr("out_type") ? call.dtype("out_type") : DType::int32;
  }
  if (dtype == DType::undefined) return true;
  Type type = call.declared(0);
  type.kind = Type::Kind::tensor;
  type.dtype = dtype;
  call.give(call.outside(0, type));
  return true;
}

void Importer::lower_by_table(Scope& scope, int number, std::vector<TfValue> inputs) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  const Lowering* lowering = find_lowering(node.def->op);
  if (lowering == nullptr) throw Unsupported("no such op is modelled");
  const std::size_t first_node = writer_.graph().nodes().size();
  TfCall call(*this, *node.def, std::move(inputs), static_cast<std::size_t>(node.outputs));
  if (!lower_text(call)) lowering->lower(call);
  const std::vector<TfValue>& results = call.results();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].id.valid() || results[i].array) continue;
    const NodeId producer = writer_.graph().value(results[i].id).producer;
    if (!producer.valid() || producer.at() < first_node) continue;
    const Type declared = call.declared(i);
    if (!writer_.declare(results[i].id, declared)) note_contradiction(*node.def, declared, results[i].id);
  }
  if (!results.empty() && results[0].id.valid()) {
    writer_.name_result(results[0].id, writer_.node_name(), first_node);
  }
  set_values(scope, number, results);
}

void Importer::lower_unknown(Scope& scope, int number, const std::vector<TfValue>& inputs) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  TfCall call(*this, *node.def, inputs, static_cast<std::size_t>(node.outputs));
  std::vector<DType> dtypes = output_dtypes(graph_, *node.def);
  std::vector<Type> types;
  for (std::size_t i = 0; i < static_cast<std::size_t>(node.outputs); ++i) {
    Type type = call.declared(i);
    if (i < dtypes.size() && dtypes[i] != DType::undefined) {
      type.kind = Type::Kind::tensor;
      type.dtype = dtypes[i];
    } else if (type.ranked) {
      type.kind = Type::Kind::tensor;
    }
    types.push_back(std::move(type));
  }
  call.give_all(call.unknown(types));
  set_values(scope, number, call.results());
}

void Importer::note_contradiction(const NodeDef& node, const Type& declared, ValueId computed) {
  if (contradictions_.count++ > 0) return;
  contradictions_.first = scope_->prefix + std::string(node.name);
  Type type = declared;
  type.kind = Type::Kind::tensor;
  type.dtype = writer_.type(computed).dtype;
  contradictions_.reason = "the file declares " + to_string(writer_.graph(), type) + ", what it computes is " +
                           to_string(writer_.graph(), writer_.type(computed));
}

void Importer::note_unknown(const NodeDef& node, const std::string& reason) {
  Unknowns& unknowns = unknowns_[std::string(node.op)];
  if (unknowns.count++ > 0) return;
  unknowns.first = scope_->prefix + std::string(node.name);
  unknowns.reason = reason;
}

ConstantPtr Importer::weights(std::string_view node) const {
  if (!calls_.empty() && !graph_.weights_in_functions) return nullptr;
  const auto found = graph_.weights.find(std::string(node));
  return found == graph_.weights.end() ? nullptr : found->second;
}

TfValue Importer::variable(const NodeDef& node, const Type& type) {
  const std::string name = full_name(node);
  const auto found = variables_.find(name);
  if (found != variables_.end()) return found->second;
  State state{.kind = State::Kind::variable, .name = name, .dtype = type.dtype};
  const auto trained = graph_.weights.find(std::string(node.name));
  const std::optional<Dims> dims = type.dims();
  const bool numbers = is_float(type.dtype) || is_int(type.dtype) || type.dtype == DType::boolean;
  if (trained != graph_.weights.end()) {
    state.content = writer_.constant(trained->second, name);
  } else if (dims && numbers) {
    element_count(*dims);  // throws when there are too many
    state.content = writer_.constant(
        std::make_shared<const InitialWeight>(type.dtype, *dims, initialisers_.of(node, type.dtype)), name);
  } else {
    state.content = outside(node, 0, type);
  }
  const ValueId content = state.content;
  const TfValue value{.id = content, .handle = add_state(std::move(state))};
  variables_[name] = value;
  return value;
}

ValueId Importer::outside(const NodeDef& node, std::size_t output, const Type& type) {
  std::string name = full_name(node);
  ValueId& id = outside_[{name, output}];
  if (id.valid()) return id;
  if (output > 0) name += ":" + std::to_string(output);
  Type named = type;
  for (std::size_t i = 0; i < named.shape.size(); ++i) {
    if (named.shape[i].known()) continue;
    named.shape[i].symbol = writer_.builder().symbol(name + "[" + std::to_string(i) + "]");
  }
  return id = writer_.input(name, named);
}

}  // namespace finity::tensorflow
