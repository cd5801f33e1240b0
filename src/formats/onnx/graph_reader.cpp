#include "formats/onnx/graph_reader.h"

#include <algorithm>
#include <utility>

namespace finity::onnx {

namespace {

// A file this deep is damaged or hostile; real models stay below ten.
constexpr int kMaxNesting = 64;
// Inlining may multiply a model this much, or up to this many nodes: a deep
// transformer of nested functions grows some sixty-fold, a bomb without end.
constexpr std::size_t kMaxInlineFactor = 64;
constexpr std::size_t kMaxInlined = 10'000;

// Two nodes, or a node and an input, claim the same name; `name` is where the later one does.
[[noreturn]] void fail_twice(const std::vector<Bytes>& nodes, const std::byte* file, std::string_view name) {
  const auto* place = reinterpret_cast<const std::byte*>(name.data());
  const auto owns = [&](Bytes node) { return place >= node.data() && place < node.data() + node.size(); };
  NodeFields fields;
  Losses ignored;
  scan_node(*std::ranges::find_if(nodes, owns), file, ignored, fields);
  throw Error(describe(fields) + ": value '" + std::string(name) + "' is defined twice");
}

std::vector<std::string_view> output_names(const std::vector<Bytes>& nodes, const std::byte* file) {
  std::vector<std::string_view> names;
  names.reserve(nodes.size());
  for (const Bytes node : nodes) {
    for (Cursor cursor(node, file); cursor.next();) {
      if (cursor.field() == 2 && !cursor.text().empty()) names.push_back(cursor.text());
    }
  }
  return names;
}

}  // namespace

void add_context(Error& error, const std::string& context) {
  constexpr std::size_t kEnough = 400;
  if (std::string_view(error.what()).size() < kEnough) error.in(context);
}

Level::Level(int& count) : count_(count) {
  if (count_ >= kMaxNesting)
    throw Error("graphs and function calls are nested more than " + std::to_string(kMaxNesting) + " deep");
  ++count_;
}

GraphReader::GraphReader(const OnnxSource& source, const ModelFields& model, GraphBuilder& builder, Losses& losses,
                         std::vector<Note>& notes)
    : file_(source.bytes.data()),
      where_(source.name),
      builder_(builder),
      losses_(losses),
      notes_(notes),
      ops_(model.functions, file_, builder, source.name, notes),
      constants_(source.bytes, source.owner, source.directory, losses),
      types_(file_, builder, losses) {}

void GraphReader::read(Bytes graph) {
  Scope scope{.ops = &ops_.main()};
  read_body(graph, builder_.add_body({}), scope);
  report();
}

void GraphReader::report() {
  constants_.external().report_missing(where_, notes_);
  const auto tell = [&](const Tally& tally, const std::string& what, const char* text) {
    if (tally.count == 0) return;
    const std::string more = tally.count == 1 ? "" : " and " + std::to_string(tally.count - 1) + " more";
    notes_.push_back({where_, what + " '" + tally.first + "'" + more + text});
  };
  tell(doubled_constants_, "initializer", ": given twice, the last one counts");
  tell(doubled_nodes_, "Constant", ": given twice, the last one counts");
  tell(valueless_attributes_, "attribute", ": without a value, left out");
}

void GraphReader::read_body(Bytes message, BodyId body, Scope& scope) {
  const Level level(nesting_);
  const GraphFields graph = scan_graph(message, file_, losses_);
  charge(kNodeCost + graph.own_bytes);
  scope.body = body;
  const std::size_t named = graph.inputs.size() + graph.constants.size() + graph.sparse_constants.size();
  scope.names.reserve(named + graph.nodes.size());
  if (body == Graph::kMain) {
    builder_.reserve(graph.nodes.size(), named + graph.nodes.size());
    inline_limit_ = std::max(kMaxInlined, kMaxInlineFactor * (graph.nodes.size() + ops_.function_nodes()));
  }
  describe_body(graph, scope);
  add_inputs(graph.inputs, scope);
  add_constants(graph.constants, false, scope);
  add_constants(graph.sparse_constants, true, scope);
  const std::vector<ValueId> outputs = declare_outputs(graph.nodes, scope);
  set_types(graph.value_infos, 0, scope);
  read_nodes(graph.nodes, outputs, scope);
  add_outputs(graph, scope);
}

void GraphReader::describe_body(const GraphFields& graph, Scope& scope) {
  Body& body = builder_.body(scope.body);
  body.name = graph.name;
  body.doc = graph.doc;
  body.metadata = graph.metadata;
}

void GraphReader::add_inputs(const std::vector<Bytes>& inputs, Scope& scope) {
  for (const Bytes input : inputs) {
    const ValueInfoFields value = scan_value_info(input, file_);
    if (value.name.empty()) throw Error("an input of graph '" + builder_.body(scope.body).name + "' has no name");
    const auto [id, fresh] = declare(value.name, scope);
    if (!fresh) throw Error("input '" + std::string(value.name) + "' is given twice");
    builder_.value(id).type = read_type(value, scope);
    builder_.body(scope.body).inputs.push_back(id);
  }
}

void GraphReader::add_constants(const std::vector<Bytes>& tensors, bool sparse, Scope& scope) {
  std::string_view name;
  for (const Bytes tensor : tensors) {
    try {
      ConstantPtr constant = read_constant(tensor, sparse, name);
      if (name.empty()) throw Error("has no name");
      add_constant(std::move(constant), name, scope);
    } catch (Error& error) {
      const auto place = static_cast<std::size_t>(tensor.data() - file_);
      add_context(error, name.empty() ? "initializer at byte " + std::to_string(place)
                                      : "initializer '" + std::string(name) + "'");
      throw;
    }
  }
}

// An initializer with the name of an input is that input's default value.
void GraphReader::add_constant(ConstantPtr constant, std::string_view name, Scope& scope) {
  const auto [id, fresh] = declare(name, scope);
  Value& value = builder_.value(id);
  if (value.constant) doubled_constants_.add(name);
  else builder_.body(scope.body).constants.push_back(id);
  const bool declared = !fresh && !value.constant && value.type.kind != Type::Kind::unknown;
  if (!declared) value.type = Type::tensor_of(constant->dtype(), constant->dims());
  value.constant = std::move(constant);
}

std::vector<ValueId> GraphReader::declare_outputs(const std::vector<Bytes>& nodes, Scope& scope) {
  const std::vector<std::string_view> names = output_names(nodes, file_);
  const std::size_t first = builder_.value_count();
  bool doubled = false;
  std::vector<ValueId> ids;
  ids.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    constexpr std::size_t kAhead = 8;
    if (i + kAhead < names.size()) scope.names.prefetch(names[i + kAhead]);
    const auto [id, fresh] = declare(names[i], scope);
    ids.push_back(id);
    if (fresh) continue;
    if (scope.frame != nullptr || id.at() < first) fail_twice(nodes, file_, names[i]);
    doubled = true;
  }
  if (doubled) drop_doubled_nodes(nodes);
  return ids;
}

// Some optimizers add Constant nodes under names that are taken by another Constant. ONNX Runtime takes the last one,
// and such models work there, so we do the same. Anything else that is defined twice is an error.
void GraphReader::drop_doubled_nodes(const std::vector<Bytes>& nodes) {
  struct Producer {
    const std::byte* node = nullptr;
    bool constant = false;
  };
  std::unordered_map<std::string_view, Producer> producers;
  NodeFields fields;
  for (const Bytes node : nodes) {
    scan_node(node, file_, losses_, fields);
    const bool constant = fields.op_type == "Constant" && fields.domain.empty() && fields.outputs.size() == 1;
    for (const std::string_view output : fields.outputs) {
      const auto [place, fresh] = producers.try_emplace(output);
      Producer& producer = place->second;
      if (!fresh && !output.empty()) {
        if (!constant || !producer.constant) fail_twice(nodes, file_, output);
        superseded_.insert(producer.node);
        doubled_nodes_.add(output);
      }
      producer = {.node = node.data(), .constant = constant};
    }
  }
}

std::pair<ValueId, bool> GraphReader::declare(std::string_view name, Scope& scope) {
  const auto [place, fresh] = scope.names.insert(name);
  if (fresh) {
    const ValueId* outer = scope.bound.find(name);
    *place = outer != nullptr ? *outer : builder_.add_value(scope.body, full_name(name, scope));
  }
  return {*place, fresh};
}

ValueId GraphReader::resolve(std::string_view name, Scope& scope) {
  if (name.empty()) return {};
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    if (const ValueId* id = at->names.find(name)) return *id;
  }
  return declare(name, scope).first;  // GraphBuilder::build() will say who uses it
}

// Inside a function every name gets the call's prefix, and a number should that name be taken.
std::string GraphReader::full_name(std::string_view name, const Scope& scope) {
  if (scope.frame == nullptr) return std::string(name);
  const std::string wanted = scope.frame->prefix + "/" + std::string(name);
  charge(wanted.size());
  return inlined_names_.make(wanted, [&](const std::string& candidate) {
    for (const Scope* at = &scope; at != nullptr; at = at->frame != nullptr ? &at->frame->caller : at->parent) {
      if (at->frame == nullptr && at->names.find(candidate) != nullptr) return true;
    }
    return false;
  });
}

Type GraphReader::read_type(const ValueInfoFields& value, const Scope& scope) {
  if (value.described) losses_.add(Loss::value_docs);
  try {
    return types_.read(value.type, scope.frame == nullptr);
  } catch (Error& error) {
    add_context(error, "value '" + std::string(value.name) + "'");
    throw;
  }
}

void GraphReader::set_types(const std::vector<Bytes>& value_infos, std::size_t first, Scope& scope) {
  for (const Bytes value_info : value_infos) {
    charge(value_info.size());
    const ValueInfoFields fields = scan_value_info(value_info, file_);
    const ValueId* id = scope.names.find(fields.name);
    if (id == nullptr || !id->valid() || id->at() < first) continue;
    Type type = read_type(fields, scope);
    Value& value = builder_.value(*id);
    if (value.constant) continue;
    value.type = value.type.kind == Type::Kind::unknown ? std::move(type) : merge(value.type, type);
  }
}

void GraphReader::add_outputs(const GraphFields& graph, Scope& scope) {
  for (const Bytes output : graph.outputs) {
    const ValueInfoFields fields = scan_value_info(output, file_);
    const ValueId id = resolve(fields.name, scope);
    if (!id.valid()) {
      throw Error("output '" + std::string(fields.name) + "' of graph '" + std::string(graph.name) + "' has no value");
    }
    Type type = read_type(fields, scope);
    Value& value = builder_.value(id);
    // What a branch says about a value from outside holds in that branch only.
    if (value.body == scope.body && !value.constant) value.type = merge(value.type, type);
    builder_.add_output(scope.body, id);
  }
}

ConstantPtr GraphReader::read_constant(Bytes message, bool sparse, std::string_view& name) {
  const auto read = [&] { return sparse ? constants_.read_sparse(message, name) : constants_.read(message, name); };
  name = {};
  if (inlining_ == 0) return read();
  auto& [known_name, constant] = function_constants_[message.data()];
  if (!constant) {
    constant = read();
    known_name = name;
  }
  name = known_name;
  return constant;
}

}  // namespace finity::onnx
