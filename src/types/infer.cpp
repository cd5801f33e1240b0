#include "types/infer.h"

#include <algorithm>
#include <utility>

#include "base/memory_error.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "types/check.h"

namespace finity {

namespace {

// Elements beyond this are not folded: shapes, axes and scales are far smaller.
constexpr std::int64_t kFoldLimit = 1024;

bool small(const Type& type) {
  if (type.kind != Type::Kind::tensor || !type.ranked) return false;
  std::int64_t count = 1;
  for (const Dim& dim : type.shape) {
    if (!dim.known() || dim.size > kFoldLimit) return false;
    count *= dim.size;
    if (count > kFoldLimit) return false;
  }
  return true;
}

Type without_shape(Type type) {
  type.ranked = false;
  type.shape.clear();
  if (type.element) type.element = std::make_shared<const Type>(without_shape(*type.element));
  return type;
}

}  // namespace

class Inference {
 public:
  Inference(const Graph& graph, const Bindings& bindings, const ElementBounds& elements);
  // Goes on from what was inferred before.
  Inference(const Graph& graph, Types types);

  Types run();
  void grow();
  void seed(std::size_t value);
  void infer_named(const Node& node);
  Types& types() { return types_; }

 private:
  void bind_symbols(const Bindings& bindings);
  Type bound(Type type) const;
  Type declared_type(ValueId id) const;
  static Type not_empty(Type type);
  void seed_values(const Bindings& bindings);
  void infer_nodes(const Body& body);
  void infer_node(const Node& node);
  void infer_known_op(const Node& node, const OpDef& op);
  std::vector<Type> infer_body(BodyId id, std::span<const Type> inputs);
  void set_output(const Node& node, std::size_t i, const Type& inferred);
  static Type believed(const Type& declared, const Type& inferred);
  void set_shape_value(ValueId id, std::optional<Shape> value);
  void fold(const Node& node);
  bool foldable(const Node& node) const;
  void note(const Node& node, std::string text) { types_.notes.push_back({describe(graph_, node), std::move(text)}); }

  const Graph& graph_;
  Types types_;
  std::vector<std::optional<Shape>> shape_values_;  // by ValueId: elements, some perhaps symbolic
  std::vector<std::int64_t> symbol_sizes_;          // by SymbolId, -1 when free
  std::vector<bool> contradicted_;                  // by ValueId: what the file declares was seen to be wrong
};

Inference::Inference(const Graph& graph, const Bindings& bindings, const ElementBounds& elements)
    : graph_(graph), shape_values_(graph.values().size()), symbol_sizes_(graph.symbols().size(), -1) {
  types_.of.resize(graph.values().size());
  types_.known.resize(graph.values().size());
  contradicted_.resize(graph.values().size(), false);
  bind_symbols(bindings);
  seed_values(bindings);
  types_.bindings = bindings;
  for (const auto& [id, bounds] : elements) shape_values_[id.at()] = bounds;
}

Inference::Inference(const Graph& graph, Types types) : graph_(graph), types_(std::move(types)) {
  grow();
  for (const auto& [name, size] : types_.bindings.symbols) symbol_sizes_[graph_.find_symbol(name).at()] = size;
}

// Room for what was added to the graph.
void Inference::grow() {
  types_.of.resize(graph_.values().size());
  types_.known.resize(graph_.values().size());
  shape_values_.resize(graph_.values().size());
  contradicted_.resize(graph_.values().size(), false);
  symbol_sizes_.resize(graph_.symbols().size(), -1);
}

namespace {

ValueId input_named(const Graph& graph, std::string_view name) {
  for (const ValueId id : graph.main().inputs) {
    if (graph.value(id).name == name) return id;
  }
  return {};
}

}  // namespace

void Inference::bind_symbols(const Bindings& bindings) {
  std::vector<std::pair<std::string, std::string>> unmatched;
  matching_bindings(graph_, bindings, unmatched);
  if (!unmatched.empty()) throw Error(unmatched.front().second);
  for (const auto& [name, size] : bindings.symbols) symbol_sizes_[graph_.find_symbol(name).at()] = size;
  for (const auto& [name, dims] : bindings.inputs) {
    const ValueId id = input_named(graph_, name);
    const Type& declared = graph_.value(id).type;
    if (!declared.ranked) continue;
    if (declared.shape.size() != dims.size()) {
      throw Error("input '" + name + "' is " + to_string(graph_, declared) + ", shape " + to_string(dims) +
                  " does not fit");
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const Dim& dim = declared.shape[i];
      if (dim.known() && dim.size != dims[i]) {
        throw Error("input '" + name + "' is " + to_string(graph_, declared) + ", shape " + to_string(dims) +
                    " does not fit");
      }
      if (!dim.symbol.valid()) continue;
      std::int64_t& size = symbol_sizes_[dim.symbol.at()];
      if (size >= 0 && size != dims[i]) {
        throw Error("dimension '" + graph_.symbol(dim.symbol) + "' would be both " + std::to_string(size) + " and " +
                    std::to_string(dims[i]));
      }
      size = dims[i];
    }
  }
}

// With the sizes of bound symbols filled in.
Type Inference::bound(Type type) const {
  for (Dim& dim : type.shape) {
    if (!dim.known() && dim.symbol.valid() && symbol_sizes_[dim.symbol.at()] >= 0) {
      dim = Dim::of(symbol_sizes_[dim.symbol.at()]);
    }
  }
  if (type.element) type.element = std::make_shared<const Type>(bound(*type.element));
  return type;
}

// A loop's body is inferred several times: what was wrong of its first iteration is not believed of later ones.
Type Inference::declared_type(ValueId id) const {
  const Type& type = graph_.value(id).type;
  return bound(contradicted_[id.at()] ? without_shape(type) : type);
}

void Inference::seed(std::size_t i) {
  const Value& value = graph_.values()[i];
  if (value.constant) {
    types_.of[i] = Type::tensor_of(value.constant->dtype(), value.constant->dims());
    if (small(types_.of[i]) && value.constant->missing().empty()) types_.known[i] = value.constant->load();
  } else if (!value.producer.valid()) {
    types_.of[i] = bound(value.type);
  }
}

void Inference::seed_values(const Bindings& bindings) {
  for (std::size_t i = 0; i < graph_.values().size(); ++i) seed(i);
  // What is fed to a model has elements; what it computes from it need not.
  for (const ValueId id : graph_.main().inputs) types_.of[id.at()] = not_empty(types_.of[id.at()]);
  // An initializer that is also an input is only a default: its elements may change, and a binding its shape.
  for (const ValueId id : graph_.main().inputs) {
    if (graph_.info().ir_version >= 4) types_.known[id.at()].reset();
  }
  for (const auto& [name, dims] : bindings.inputs) {
    Type& type = types_.of[input_named(graph_, name).at()];
    type = Type::tensor_of(type.dtype, dims);
  }
}

// Every size that is not known is at least 1.
Type Inference::not_empty(Type type) {
  for (Dim& dim : type.shape) {
    if (!dim.known()) dim.least = std::max<std::int64_t>(dim.least, 1);
  }
  type.count.least = std::max<std::int64_t>(type.count.least, 1);
  if (type.element) type.element = std::make_shared<const Type>(not_empty(*type.element));
  return type;
}

Types Inference::run() {
  infer_nodes(graph_.main());
  return std::move(types_);
}

void Inference::infer_nodes(const Body& body) {
  for (const NodeId id : body.nodes) infer_named(graph_.node(id));
}

void Inference::infer_named(const Node& node) {
  try {
    with_memory_errors([&] { infer_node(node); });
  } catch (Error& error) {
    error.in(describe(graph_, node));
    throw;
  }
}

void Inference::infer_node(const Node& node) {
  if (node.op != nullptr) {
    infer_known_op(node, *node.op);
    return;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) set_output(node, i, {});
}

void Inference::infer_known_op(const Node& node, const OpDef& op) {
  check_arity(op, node);
  check_attrs(op, node);
  std::vector<InferCall::Operand> operands(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const std::size_t at = node.inputs[i].at();
    operands[i].type = types_.of[at];
    operands[i].value = types_.known[at] ? &*types_.known[at] : nullptr;
    operands[i].shape_value = shape_values_[at] ? &*shape_values_[at] : nullptr;
  }
  InferCall call(call_of(graph_, node), std::move(operands),
                 [this](BodyId id, std::span<const Type> inputs) { return infer_body(id, inputs); });
  check_dtypes(op, call);
  if (op.meaning.infer != nullptr) op.meaning.infer(call);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    set_output(node, i, call.outs()[i]);
    if (node.outputs[i].valid()) set_shape_value(node.outputs[i], std::move(call.out_values()[i]));
  }
  if (foldable(node)) fold(node);
}

// Runtimes compute sizes and do not look at those declared for intermediate values, which may be left from a trace with
// other data. Rank and symbols are taken over. Of an op that is not in the table the file says all there is.
Type Inference::believed(const Type& declared, const Type& inferred) {
  Type result = declared;
  for (Dim& dim : result.shape) {
    // What has elements has them along every axis.
    dim = {.size = -1, .symbol = dim.symbol};
    if (inferred.ranked) continue;
    dim.least = std::min<std::int64_t>(inferred.count.least_size(), 1);
    dim.most = inferred.count.most;
  }
  if (result.element) {
    result.element =
        std::make_shared<const Type>(believed(*result.element, inferred.element ? *inferred.element : Type{}));
  }
  return result;
}

// The computed type decides; what the file declares fills the gaps.
void Inference::set_output(const Node& node, std::size_t i, const Type& inferred) {
  const ValueId id = node.outputs[i];
  if (!id.valid()) return;
  bool conflict = false;
  const Type declared = declared_type(id);
  merge(inferred, declared, &conflict);
  types_.of[id.at()] = merge(inferred, node.op == nullptr ? declared : believed(declared, inferred));
  if (conflict) {
    contradicted_[id.at()] = true;
    note(node, "output '" + graph_.value(id).name + "' is declared " + to_string(graph_, declared) +
                   " but computed as " + to_string(graph_, inferred));
  }
}

// Sizes that are all known are elements like any other: what is computed from them can be folded.
void Inference::set_shape_value(ValueId id, std::optional<Shape> value) {
  const Type& type = types_.of[id.at()];
  const std::optional<Dims> dims = type.dims();
  types_.known[id.at()].reset();  // a loop body is inferred more than once
  if (value && std::ranges::all_of(*value, &Dim::known) && dims && is_int(type.dtype) && small(type) &&
      element_count(*dims) == static_cast<std::int64_t>(value->size())) {
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : *value) sizes.push_back(dim.size);
    types_.known[id.at()] = from_elements<std::int64_t>(type.dtype, *dims, sizes);
  }
  shape_values_[id.at()] = std::move(value);
}

std::vector<Type> Inference::infer_body(BodyId id, std::span<const Type> inputs) {
  const Body& body = graph_.body(id);
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const ValueId input = body.inputs[i];
    // Shapes may change from one iteration to the next, whatever the file declares.
    const Type declared = without_shape(graph_.value(input).type);
    types_.of[input.at()] = i < inputs.size() ? merge(inputs[i], declared) : declared;
  }
  infer_nodes(body);
  std::vector<Type> outputs;
  for (const ValueId output : body.outputs) {
    outputs.push_back(output.valid() ? types_.of[output.at()] : Type{});
  }
  return outputs;
}

bool Inference::foldable(const Node& node) const {
  const auto has_elements = [&](ValueId id) { return !id.valid() || types_.known[id.at()].has_value(); };
  const auto is_small = [&](ValueId id) { return !id.valid() || small(types_.of[id.at()]); };
  // Where libraries compute other bits, what follows from them is not known.
  const auto holds_floats = [&](ValueId id) { return id.valid() && is_float(types_.of[id.at()].dtype); };
  const bool floats = std::ranges::any_of(node.inputs, holds_floats) || std::ranges::any_of(node.outputs, holds_floats);
  return folds(*node.op, node.attrs, floats) && std::ranges::all_of(node.inputs, has_elements) &&
         std::ranges::all_of(node.outputs, is_small);
}

void Inference::fold(const Node& node) {
  std::vector<Datum> inputs(node.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i].valid()) inputs[i] = *types_.known[node.inputs[i].at()];
  }
  std::vector<Datum> outputs;
  try {
    outputs = finity::fold(call_of(graph_, node), inputs);
  } catch (const Unsupported&) {
    return;  // stays unknown; running the model reports it
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor* result = outputs[i].tensor();
    if (!node.outputs[i].valid() || result == nullptr || result->size() > kFoldLimit) continue;
    types_.of[node.outputs[i].at()] = Type::tensor_of(result->dtype(), result->dims());
    types_.known[node.outputs[i].at()] = *result;
  }
}

GrowingTypes::GrowingTypes(const Graph& graph, Types types)
    : inference_(std::make_unique<Inference>(graph, std::move(types))) {}
GrowingTypes::~GrowingTypes() = default;
GrowingTypes::GrowingTypes(GrowingTypes&&) noexcept = default;

void GrowingTypes::add_constant(ValueId id) {
  inference_->grow();
  inference_->seed(id.at());
}

void GrowingTypes::add_node(const Node& node) {
  inference_->grow();
  inference_->infer_named(node);
}

void GrowingTypes::set(ValueId id, Type type) {
  inference_->grow();
  inference_->types().of[id.at()] = std::move(type);
}

const Types& GrowingTypes::types() const { return inference_->types(); }

Types GrowingTypes::take() && { return std::move(inference_->types()); }

Types infer_types(const Graph& graph, const Bindings& bindings, const ElementBounds& elements) {
  return Inference(graph, bindings, elements).run();
}

}  // namespace finity
