#include "torch/script/interpret.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "tensor/convert.h"
#include "torch/script/tables.h"
#include "torch/value.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

bool has_letter(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

// "x.1" of the first x is how LibTorch numbers names.
std::string clean(std::string name) {
  if (name.ends_with(".1")) name.resize(name.size() - 2);
  return has_letter(name) ? name : "value_" + name;
}

bool is_number_type(const c10::Type& type) {
  const c10::TypeKind kind = type.kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType ||
         kind == c10::TypeKind::NumberType;
}

}  // namespace

const ScriptLowering* find_lowering(std::string_view op) {
  constexpr std::string_view kAten = "aten::";
  if (!op.starts_with(kAten)) return nullptr;
  op.remove_prefix(kAten.size());
  for (const auto table :
       {script_math(), script_functions(), script_rows(), script_losses(), script_layers(), script_attention(),
        script_windows(), script_recurrent(), script_shapes(), script_numbers(), script_indices(), script_images()}) {
    const auto found = std::ranges::find(table, op, &ScriptLowering::op);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

std::string line_of(const jit::Node& node) {
  const auto place = node.sourceRange().file_line_col();
  return place ? " (line " + std::to_string(std::get<1>(*place)) + " of its source)" : "";
}

// ---- inputs and outputs

ImportedScript Interpreter::run(const std::shared_ptr<jit::Graph>& shared, const c10::FunctionSchema& schema,
                                const c10::IValue& self) {
  const jit::Graph& graph = *shared;
  find_changes(shared);
  for (const JitValue* input : graph.inputs()) {
    if (input->type()->kind() == c10::TypeKind::ClassType) values_[input] = {.constant = self};
  }
  add_inputs(graph, schema);
  try {
    run_block(*graph.block());
    for (const JitValue* output : graph.outputs()) add_outputs(settled(output));
  } catch (const Raised& raised) {
    throw Error("the module raises an exception: " + raised.words);
  }
  Graph result = std::move(graph_).finish();
  std::vector<std::string> notes = all_notes(result);
  return {std::move(result), std::move(notes)};
}

// Why ops stay unknown is said of those that are needed, once.
std::vector<std::string> Interpreter::all_notes(const Graph& graph) const {
  std::unordered_set<std::string> open;
  const auto walk = [&](auto&& self, const Body& body) -> void {
    for (const NodeId id : body.nodes) {
      const Node& node = graph.node(id);
      if (node.op == nullptr) open.insert(std::string(node.domain) + "::" + std::string(node.op_type));
      for (const BodyId inner : bodies_of(node.attrs)) self(self, graph.body(inner));
    }
  };
  walk(walk, graph.main());
  std::vector<std::string> notes = notes_;
  for (const auto& [op, text] : unknown_) {
    if (open.contains(op) && std::ranges::find(notes, text) == notes.end()) notes.push_back(text);
  }
  return notes;
}

// A file says neither shapes nor element types: what the first ops ask for is assumed.
Type Interpreter::type_of_input(const JitValue& value) const {
  DType dtype = DType::float32;
  std::size_t rank = 0;
  for (const jit::Use& use : value.uses()) {
    const std::string op = use.user->kind().toQualString();
    const bool second = use.offset == 1;
    if ((op == "aten::embedding" && second) || (op == "aten::gather" && use.offset == 2) ||
        (second && (op.starts_with("aten::nll_loss") || op == "aten::cross_entropy_loss"))) {
      dtype = DType::int64;
    }
    if (use.offset != 0) continue;
    if (op.ends_with("2d")) rank = 4;
    if (op.ends_with("conv1d") || op.ends_with("pool1d")) rank = 3;
    if (op.ends_with("conv3d") || op.ends_with("pool3d")) rank = 5;
    if (op == "aten::lstm" || op == "aten::gru" || op.starts_with("aten::rnn_")) rank = 3;
  }
  const c10::TypeKind kind = value.type()->kind();
  if (kind == c10::TypeKind::IntType) return Type::tensor_of(DType::int64, {});
  if (kind == c10::TypeKind::BoolType) return Type::tensor_of(DType::boolean, {});
  if (kind == c10::TypeKind::FloatType) return Type::tensor_of(kScriptFloat, {});
  if (const auto type = value.type()->cast<c10::TensorType>()) {
    if (const auto scalar = type->scalarType()) dtype = *scalar == at::kLong ? DType::int64 : dtype;
    if (const auto sizes = type->sizes().concrete_sizes()) return Type::tensor_of(dtype, *sizes);
  }
  return rank == 0 ? Type::tensor(dtype) : Type::tensor(dtype, Shape(rank, Dim{.size = -1, .least = 1}));
}

void Interpreter::add_inputs(const jit::Graph& graph, const c10::FunctionSchema& schema) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const JitValue* input = graph.inputs()[i];
    if (input->type()->kind() == c10::TypeKind::ClassType) continue;  // the module itself
    const std::string name = clean(schema.arguments().at(i).name());
    const auto& otherwise = schema.arguments().at(i).default_value();
    if (otherwise && !bindings_.inputs.contains(name)) {
      std::ostringstream text;
      text << *otherwise;
      notes_.push_back("input '" + name + "' is left at its default, " + text.str());
      set(input, {.constant = *otherwise});
      continue;
    }
    const bool optional = bindings_.inputs.contains(name) &&
                          input->type()->isSubtypeOf(*c10::OptionalType::create(c10::TensorType::get()));
    if (!optional && !input->type()->isSubtypeOf(*c10::TensorType::get()) && !is_number_type(*input->type())) {
      throw Error("input '" + name + "' is a " + input->type()->repr_str() + ", only tensors and numbers are read");
    }
    Type type = type_of_input(*input);
    const auto bound = bindings_.inputs.find(name);
    if (bound != bindings_.inputs.end()) type = Type::tensor_of(type.dtype, bound->second);
    notes_.push_back(
        "input '" + name + "' is taken for " + std::string(finity::name(type.dtype)) +
        (!type.ranked ? std::string(" of unknown shape; --shape gives it")
                      : " with " + std::to_string(type.shape.size()) + (type.shape.size() == 1 ? " axis" : " axes")));
    set(input, {.id = graph_.input(name, type)});
  }
}

void Interpreter::add_outputs(const ScriptItem& item) {
  if (item.is_list) {
    for (const ScriptItem& one : item.items) add_outputs(one);
    return;
  }
  // What does not depend on inputs was folded by LibTorch, with the tuple or list around it.
  if (item.is_constant() && item.constant.isTuple()) {
    for (const c10::IValue& one : item.constant.toTupleRef().elements()) add_outputs({.constant = one});
    return;
  }
  if (item.is_constant() && item.constant.isList()) {
    for (const c10::IValue& one : item.constant.toListRef()) add_outputs({.constant = one});
    return;
  }
  const bool constant =
      item.is_constant() && (item.constant.isTensor() || item.constant.isScalar() || item.constant.isBool());
  if (item.id.valid()) graph_.add_output(item.id);
  else if (constant) graph_.add_output(put("Identity", {tensor_of(item)}).front());
  else notes_.push_back("an output is no tensor, and is left out");
}

// ---- values

const ScriptItem& Interpreter::at(const JitValue* value) const {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  throw Error("value '" + value->debugName() + "' is not defined");
}

void Interpreter::set(const JitValue* value, ScriptItem item) {
  const c10::Type& type = *value->type();
  if (is_number_type(type)) {
    item.is_number = true;
    // What follows from sizes alone is known now.
    const Tensor* known = item.id.valid() ? graph_.known(item.id) : nullptr;
    if (known != nullptr && known->size() == 1 && type.kind() == c10::TypeKind::IntType)
      item = {.constant = elements<std::int64_t>(*known)[0]};
    else if (known != nullptr && known->size() == 1 && type.kind() == c10::TypeKind::BoolType)
      item = {.constant = elements<std::int64_t>(*known)[0] != 0};
  }
  const bool list = type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::DictType;
  if (list && !item.object && (item.is_list || (item.id.valid() && graph_.is_sequence(item.id)))) {
    item = {.object =
                std::make_shared<ScriptObject>(ScriptObject{.content = std::move(item), .depth = graph_.depth()})};
  }
  if (roots_.contains(value) && !item.object && (item.id.valid() || item.constant.isTensor())) {
    item = {.object = std::make_shared<ScriptObject>(
                ScriptObject{.content = {.id = tensor_of(item)}, .depth = graph_.depth()})};
  }
  values_[value] = std::move(item);
}

ScriptItem Interpreter::settled(const ScriptItem& item) const {
  if (item.object) return settled(item.object->content);
  if (!item.is_list) return item;
  ScriptItem result = {.is_list = true, .keys = item.keys};
  for (const ScriptItem& one : item.items) result.items.push_back(settled(one));
  return result;
}

std::optional<bool> Interpreter::truth(const ScriptItem& condition) const {
  if (condition.is_constant() && condition.constant.isBool()) return condition.constant.toBool();
  const Tensor* known = condition.id.valid() ? graph_.known(condition.id) : nullptr;
  if (known != nullptr && known->size() == 1) return elements<std::int64_t>(*known)[0] != 0;
  return std::nullopt;
}

// ---- nodes

void Interpreter::run_block(const JitBlock& block) {
  for (const JitNode* node : block.nodes()) add(*node);
}

void Interpreter::add(const JitNode& node) {
  const std::string op = node.kind().toQualString();
  if (add_structure(node, op) || add_query(node, op) || add_list_op(node, op) || change_tensor(node, op) || fold(node))
    return;
  lower(node, op);
}

// What has no schema of its own.
bool Interpreter::add_structure(const JitNode& node, const std::string& op) {
  if (node.kind() == c10::prim::Constant) {
    set(node.output(), {.constant = jit::toIValue(node.output()).value_or(c10::IValue())});
    return true;
  }
  if (op == "prim::If") add_branch(node);
  else if (op == "prim::Loop") add_loop(node);
  else if (op == "prim::RaiseException") {
    const ScriptItem words = settled(node.input(0));
    throw Raised{words.constant.isString() ? words.constant.toStringRef() : "an exception"};
  } else if (op == "prim::Uninitialized") set(node.output(), {.is_unset = true});
  else if (op == "prim::NumToTensor") {
    ScriptItem item = at(node.input());
    if (item.is_constant())
      item.constant = at::scalar_tensor(item.constant.toScalar(), item.constant.toScalar().type());
    item.is_number = false;
    set(node.output(), std::move(item));
  } else if (op == "prim::unchecked_cast" || op == "prim::unchecked_unwrap_optional" ||
             op == "aten::_unwrap_optional") {
    set(node.output(), at(node.input(0)));
  } else if (op == "prim::Print" || op == "aten::warn") return true;
  else return add_construction(node, op) || unpack(node, op) || add_attribute(node, op);
  return true;
}

bool Interpreter::add_construction(const JitNode& node, const std::string& op) {
  ScriptItem list = {.is_list = true};
  if (op == "prim::ListConstruct" || op == "prim::TupleConstruct") {
    for (const JitValue* input : node.inputs()) list.items.push_back(at(input));
  } else if (op == "prim::DictConstruct") {
    for (std::size_t i = 0; i + 1 < node.inputs().size(); i += 2) {
      if (!at(node.input(i)).is_constant()) throw Refused("a dictionary has keys that are computed" + line_of(node));
      list.keys.push_back(at(node.input(i)).constant);
      list.items.push_back(at(node.input(i + 1)));
    }
  } else {
    return false;
  }
  set(node.output(), std::move(list));
  return true;
}

bool Interpreter::unpack(const JitNode& node, const std::string& op) {
  if (op == "prim::TupleIndex") {
    const ScriptItem& tuple = at(node.input(0));
    const ScriptItem& place = at(node.input(1));
    if (!tuple.is_list || !place.is_constant()) return false;
    std::int64_t index = place.constant.toInt();
    if (index < 0) index += static_cast<std::int64_t>(tuple.items.size());
    ScriptItem item = tuple.items.at(static_cast<std::size_t>(index));
    set(node.output(), std::move(item));
    return true;
  }
  if (op != "prim::ListUnpack" && op != "prim::TupleUnpack") return false;
  const ScriptItem& value = at(node.input());
  const ScriptItem list = value.object ? value.object->content : value;
  const std::size_t count = node.outputs().size();
  if (list.id.valid() && !graph_.is_sequence(list.id) && node.input()->type()->isSubtypeOf(*c10::ListType::ofInts())) {
    name_place(node, op);
    for (std::size_t i = 0; i < count; ++i) {
      const ValueId index = graph_.constant(Tensor::scalar(static_cast<std::int64_t>(i)));
      set(node.output(i), {.id = put("Gather", {list.id, index}).front()});
    }
    return true;
  }
  if (list.is_constant() && list.constant.isIntList() && list.constant.toIntVector().size() == count) {
    const std::vector<std::int64_t> numbers = list.constant.toIntVector();
    for (std::size_t i = 0; i < count; ++i) set(node.output(i), {.constant = numbers[i]});
    return true;
  }
  if (list.is_constant() && list.constant.isTuple() && list.constant.toTupleRef().size() == count) {
    for (std::size_t i = 0; i < count; ++i) set(node.output(i), {.constant = list.constant.toTupleRef().elements()[i]});
    return true;
  }
  if (!list.is_list || list.items.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) set(node.output(i), list.items[i]);
  return true;
}

// Attributes that are left are those that the module changes: they start as the file has them.
bool Interpreter::add_attribute(const JitNode& node, const std::string& op) {
  if (op != "prim::GetAttr" && op != "prim::SetAttr") return false;
  const auto found = values_.find(node.input(0));
  if (found == values_.end() || !found->second.constant.isObject())
    throw Refused(op + line_of(node) + " is not of the module");
  const auto object = found->second.constant.toObject();
  const std::string& name = node.s(c10::attr::name);
  std::shared_ptr<ScriptObject>& attribute = attributes_[{object.get(), name}];
  if (!attribute) {
    attribute = std::make_shared<ScriptObject>(ScriptObject{.content = {.constant = object->getAttr(name)}});
    if (!attribute->content.constant.isObject())
      notes_.push_back("attribute '" + name + "' is changed by the module; it is read as the file has it");
  }
  if (op == "prim::SetAttr") {
    mark_shared(at(node.input(1)));
    change(attribute, settled(node.input(1)));
    return true;
  }
  set(node.output(), attribute->content);
  mark_shared(at(node.output()));
  return true;
}

std::vector<ValueId> Interpreter::put(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs,
                                      std::size_t outputs) {
  Attrs all;
  for (const auto& [name, value] : attrs) all.set(std::string(name), value);
  return graph_.add(op, std::move(inputs), std::move(all), outputs);
}

void Interpreter::name_place(const JitNode& node, const std::string& op) {
  const std::string name = node.outputs().empty() ? op : clean(node.outputs()[0]->debugName());
  graph_.set_place(has_letter(name) && !name.starts_with("value_") ? name : op.substr(op.rfind(':') + 1));
}

ScriptCall::Arguments Interpreter::arguments_of(const JitNode& node) const {
  ScriptCall::Arguments arguments;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) throw Unsupported("has no schema");
  for (std::size_t i = 0; i < node.inputs().size() && i < schema->arguments().size(); ++i) {
    arguments.emplace_back(schema->arguments()[i].name(), settled(node.inputs()[i]));
  }
  return arguments;
}

namespace {

// What the script says of the result.
void tell_results(const jit::Node& node, ScriptCall& call) {
  if (node.outputs().size() != 1) return;
  const c10::TypeKind kind = node.output()->type()->kind();
  call.gives_number = is_number_type(*node.output()->type());
  if (kind == c10::TypeKind::FloatType) call.kind = kScriptFloat;
  if (kind == c10::TypeKind::IntType) call.kind = DType::int64;
  if (kind == c10::TypeKind::BoolType) call.kind = DType::boolean;
  const auto unpacks = [&](const jit::Use& use) {
    return use.user->kind() == c10::prim::ListUnpack &&
           static_cast<std::int64_t>(use.user->outputs().size()) == call.integer("chunks");
  };
  call.is_unpacked = call.has("chunks") && std::ranges::all_of(node.output()->uses(), unpacks);
}

// Sums and comparisons of lists are not those of their items.
void require_no_lists(const ScriptLowering& lowering, const jit::Node& node) {
  const auto is_list = [](const jit::Value* input) { return input->type()->kind() == c10::TypeKind::ListType; };
  const auto is_this = [&](const ScriptLowering& entry) { return entry.lower == lowering.lower; };
  if (std::ranges::any_of(script_math(), is_this) && std::ranges::any_of(node.inputs(), is_list))
    throw Unsupported("takes lists of which the length is not known");
}

void require_kind(const ScriptCall& call) {
  if (call.kind == DType::undefined || call.given.empty() || !call.given[0].id.valid()) return;
  const DType dtype = call.dtype(call.given[0].id);
  if (dtype != call.kind && dtype != DType::undefined) throw Unsupported("gives a number of another kind");
}

}  // namespace

void Interpreter::lower(const JitNode& node, const std::string& op) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  // Every alias of what is changed would have to change with it, and a graph that went on with the old value would
  // prove what is not true.
  if (schema != nullptr && schema->is_mutable()) {
    throw Refused("node " + op + line_of(node) + " changes a value in place, in a way that cannot be said as a graph");
  }
  name_place(node, op);
  const ScriptLowering* lowering = find_lowering(op);
  std::string reason = lowering == nullptr ? "is not known" : "";
  if (lowering != nullptr) {
    try {
      ScriptCall call(graph_, op, arguments_of(node), node.outputs().size());
      tell_results(node, call);
      require_no_lists(*lowering, node);
      lowering->lower(call);
      require_kind(call);
      if (call.given.size() >= node.outputs().size()) {
        for (std::size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], call.given[i]);
        return;
      }
      reason = "gives more than is known of it";
    } catch (const Refused&) {
      throw;
    } catch (const Error& error) {
      reason = error.what();
    } catch (const c10::Error& error) {
      reason = error.what_without_backtrace();
    }
  }
  stay_unknown(node, op, reason);
}

namespace {

void collect(const ScriptItem& item, std::vector<ValueId>& operands) {
  if (item.id.valid()) operands.push_back(item.id);
  for (const ScriptItem& one : item.items) collect(one, operands);
}

}  // namespace

void Interpreter::stay_unknown(const JitNode& node, const std::string& op, const std::string& reason) {
  std::vector<ValueId> operands;
  for (const JitValue* input : node.inputs()) collect(settled(input), operands);
  std::unordered_set<const JitValue*> inside;
  for (const JitBlock* block : node.blocks()) collect_outer(*block, inside, operands);
  const std::vector<ValueId> results = graph_.add_unknown(op, operands, node.outputs().size());
  for (std::size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], {.id = results[i]});
  unknown_.emplace_back(op, op + ": " + reason);
}

// What the inside of a branch or loop reads from outside.
void Interpreter::collect_outer(const JitBlock& block, std::unordered_set<const JitValue*>& inside,
                                std::vector<ValueId>& operands) const {
  const auto read = [&](const JitValue* value) {
    if (!inside.contains(value) && values_.contains(value)) collect(settled(value), operands);
  };
  inside.insert(block.inputs().begin(), block.inputs().end());
  for (const JitNode* node : block.nodes()) {
    std::ranges::for_each(node->inputs(), read);
    for (const JitBlock* inner : node->blocks()) collect_outer(*inner, inside, operands);
    inside.insert(node->outputs().begin(), node->outputs().end());
  }
  std::ranges::for_each(block.outputs(), read);
}

}  // namespace finity
