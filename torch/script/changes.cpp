// Tensors that change in place: x[:, 0] = y, x.add_(y). The tensor that holds the elements becomes an object with a
// content; what is written through a view goes to the places that the view shows. This is honest only where nothing
// else is read later that shares the elements: LibTorch's own alias analysis says what may.
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "torch/script/interpret.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

// Views for certain, whatever the strides; no element is shown twice.
constexpr std::array<std::string_view, 13> kViews = {
    "aten::select", "aten::slice",    "aten::narrow", "aten::transpose", "aten::permute",
    "aten::t",      "aten::view",     "aten::detach", "aten::squeeze",   "aten::unsqueeze",
    "aten::alias",  "aten::swapaxes", "aten::view_as"};

bool is_view_op(std::string_view op) { return std::ranges::find(kViews, op) != kViews.end(); }
bool is_view(const jit::Node& node) { return is_view_op(node.kind().toQualString()); }

// Changes the shape, and no element: "aten::t_".
bool keeps_elements(std::string_view op) {
  op.remove_suffix(1);
  return is_view_op(op) || op == "aten::swapdims" || op == "aten::requires_grad";
}

bool changes_tensor(const jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  return schema != nullptr && schema->is_mutable() && !node.inputs().empty() &&
         node.input(0)->type()->isSubtypeOf(*c10::TensorType::get());
}

// Of the module itself everything is read anew.
bool may_hold_tensors(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ClassType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::NoneType: return false;
    default: return true;
  }
}

// What the views begin with.
const jit::Value* root_of(const jit::Value* value) {
  while (is_view(*value->node())) value = value->node()->input(0);
  return value;
}

void collect_values(const jit::Block& block, std::vector<const jit::Value*>& values, bool& changes,
                    std::unordered_set<const jit::Value*>& roots) {
  values.insert(values.end(), block.inputs().begin(), block.inputs().end());
  for (const jit::Node* node : block.nodes()) {
    if (changes_tensor(*node)) {
      changes = true;
      roots.insert(root_of(node->input(0)));
    }
    for (const jit::Block* inner : node->blocks()) collect_values(*inner, values, changes, roots);
    values.insert(values.end(), node->outputs().begin(), node->outputs().end());
  }
}

// The node of the block in which this one is, or none.
const jit::Node* inside(const jit::Node* node, const jit::Block* block) {
  while (node != nullptr && node->owningBlock() != block) node = node->owningBlock()->owningNode();
  return node;
}

// Whether the value is read after the change, having been made before it.
bool outlives(const jit::Value* value, const jit::Node* change) {
  const jit::Block* block = value->node()->owningBlock();
  const jit::Node* at = inside(change, block);
  if (at == nullptr) return false;  // it is gone, but for what the block gives
  const bool before = value->node()->kind() == c10::prim::Param || value->node()->isBefore(at);
  if (!before) return false;
  return std::ranges::any_of(value->uses(), [&](const jit::Use& use) {
    const jit::Node* reader = inside(use.user, block);
    // Inside a loop or branch that changes it, what reads it may come before or after.
    return reader != nullptr && use.user != change && (reader == at ? at != change : at->isBefore(reader));
  });
}

}  // namespace

void Interpreter::find_changes(const std::shared_ptr<jit::Graph>& graph) {
  bool changes = false;
  all_values_.clear();
  collect_values(*graph->block(), all_values_, changes, roots_);
  if (changes) aliases_ = std::make_shared<jit::AliasDb>(graph);
}

void Interpreter::require_sole_name(const JitNode& node, const JitValue* root) const {
  for (const JitValue* value : all_values_) {
    if (value == root || !may_hold_tensors(*value->type())) continue;
    // Lists and tuples too, of what they hold.
    if (!aliases_->mayContainAlias(const_cast<JitValue*>(value), node.input(0)) || !outlives(value, &node)) continue;
    throw Refused("it is read under another name afterwards");
  }
}

// The places of the view's elements among those of the root, by the views themselves.
ValueId Interpreter::places_of(const JitValue* view, const JitValue* root, ValueId content) {
  if (view == root) {
    const auto number = [&](std::int64_t x) { return graph_.constant(Tensor::scalar(x)); };
    const ValueId all = put("Range", {number(0), put("Size", {content}).front(), number(1)}).front();
    return put("Reshape", {all, put("Shape", {content}).front()}, {{"allowzero", std::int64_t{1}}}).front();
  }
  const JitNode& node = *view->node();
  ScriptCall::Arguments arguments = arguments_of(node);
  arguments.at(0).second = {.id = places_of(node.input(0), root, content)};
  return lowered(node.kind().toQualString(), std::move(arguments));
}

ValueId Interpreter::lowered(std::string_view op, ScriptCall::Arguments arguments) {
  const ScriptLowering* lowering = find_lowering(op);
  if (lowering == nullptr) throw Unsupported("is not known");
  ScriptCall call(graph_, std::string(op), std::move(arguments), 1);
  lowering->lower(call);
  if (call.given.empty() || !call.given[0].id.valid()) throw Unsupported("gives no tensor");
  return call.given[0].id;
}

// What the changed tensor holds afterwards, without a shape of its own.
ValueId Interpreter::written_by(const JitNode& node, ValueId before) {
  const std::string op = node.kind().toQualString();
  const DType dtype = graph_.type(before).dtype;
  ScriptCall::Arguments arguments = arguments_of(node);
  ValueId value;
  if (op == "aten::copy_" || op == "aten::fill_") value = tensor_of(arguments.at(1).second);
  else if (op == "aten::zero_") value = tensor_of({.constant = std::int64_t{0}});
  else if (op.ends_with("_") && !keeps_elements(op)) value = lowered(op.substr(0, op.size() - 1), std::move(arguments));
  else throw Unsupported("writes to an operand");
  if (dtype != DType::undefined) return converter().cast(value, dtype);
  // Alone it keeps its element type, whatever that is.
  const auto is_tensor = [](const JitValue* input) { return input->type()->isSubtypeOf(*c10::TensorType::get()); };
  if (op.starts_with("aten::copy") || op.starts_with("aten::fill") || op.starts_with("aten::zero") ||
      std::ranges::count_if(node.inputs(), is_tensor) > 1)
    throw Unsupported("the element type of an operand is not known");
  return value;
}

bool Interpreter::change_tensor(const JitNode& node, const std::string& op) {
  if (!changes_tensor(node)) return false;
  const JitValue* const root = root_of(node.input(0));
  try {
    require_sole_name(node, root);
    const std::shared_ptr<ScriptObject> object = at(root).object;
    if (!object || !object->content.id.valid()) throw Unsupported("it is no tensor of the graph");
    name_place(node, op);
    const ValueId content = object->content.id, before = tensor_of(settled(node.input(0)));
    const ValueId value = put("Expand", {written_by(node, before), put("Shape", {before}).front()}).front();
    ValueId after = value;
    if (node.input(0) != root) {
      const ValueId flat = graph_.constant(Tensor::vector_of(std::vector<std::int64_t>{-1}));
      const ValueId places = put("Reshape", {places_of(node.input(0), root, content), flat}).front();
      const ValueId all = put("Reshape", {content, flat}).front(), some = put("Reshape", {value, flat}).front();
      const ValueId scattered = put("ScatterElements", {all, places, some}, {{"axis", std::int64_t{0}}}).front();
      after = put("Reshape", {scattered, put("Shape", {content}).front()}, {{"allowzero", std::int64_t{1}}}).front();
    }
    change(object, {.id = after});
    if (!node.outputs().empty()) set(node.output(0), {.id = value});
  } catch (const Error& error) {
    throw Refused("node " + op + line_of(node) +
                  " changes a tensor in place, in a way that cannot be said as a graph: " + error.what());
  }
  return true;
}

}  // namespace finity
