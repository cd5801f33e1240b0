// Lists and dictionaries of a script, questions about shapes and types, and what can be computed at once.
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "tensor/convert.h"
#include "torch/script/interpret.h"
#include "torch/value.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

ScriptItem list_of_constants(const c10::IValue& constant) {
  ScriptItem list = {.is_list = true};
  if (constant.isGenericDict()) {
    for (const auto& entry : constant.toGenericDict()) {
      list.keys.push_back(entry.key());
      list.items.push_back({.constant = entry.value()});
    }
    return list;
  }
  for (const c10::IValue& one : constant.toListRef()) list.items.push_back({.constant = one});
  return list;
}

// The constant that the item is, of the script's type.
std::optional<c10::IValue> constant_of(const ScriptItem& item, const c10::TypePtr& type) {
  if (item.is_constant()) return item.constant;
  if (!item.is_list || !item.keys.empty()) return std::nullopt;
  if (const auto tuple = type->cast<c10::TupleType>()) {
    std::vector<c10::IValue> parts;
    for (std::size_t i = 0; i < item.items.size() && i < tuple->elements().size(); ++i) {
      const auto part = constant_of(item.items[i], tuple->elements()[i]);
      if (!part) return std::nullopt;
      parts.push_back(*part);
    }
    return c10::ivalue::Tuple::create(std::move(parts));
  }
  const auto list = type->cast<c10::ListType>();
  if (!list) return std::nullopt;
  c10::impl::GenericList parts(list->getElementType());
  for (const ScriptItem& one : item.items) {
    const auto part = constant_of(one, list->getElementType());
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  return c10::IValue(parts);
}

// What is computed from fractions is left to the graph, so that it is looked at there.
bool holds_fractions(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && !at::isIntegralType(value.toTensor().scalar_type(), true);
  if (value.isList()) return std::ranges::any_of(value.toListRef(), holds_fractions);
  return false;
}

constexpr std::int64_t kMostFolded = 1 << 20;

bool is_small(const c10::IValue& value) { return !value.isTensor() || value.toTensor().numel() <= kMostFolded; }

}  // namespace

bool Interpreter::fold(const JitNode& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->is_mutable() || !node.blocks().empty() || node.outputs().empty()) return false;
  if (node.isNondeterministic() || node.hasSideEffects()) return false;
  const std::string_view op = node.kind().toQualString();
  if (op.starts_with("aten::empty") || op.starts_with("aten::new_empty")) return false;  // holds whatever was there
  jit::Stack stack;
  for (const JitValue* input : node.inputs()) {
    const auto constant = constant_of(settled(input), input->type());
    if (!constant || holds_fractions(*constant)) return false;
    stack.push_back(*constant);
  }
  if (schema->is_vararg()) stack.emplace_back(static_cast<std::int64_t>(node.inputs().size()));
  try {
    node.getOperation()(stack);
  } catch (const std::exception&) {
    return false;  // an error of the script, if it gets here at all
  }
  if (stack.size() != node.outputs().size() || !std::ranges::all_of(stack, is_small)) return false;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const bool list =
        stack[i].isGenericDict() || (stack[i].isList() && node.output(i)->type()->kind() == c10::TypeKind::ListType);
    set(node.output(i), list ? list_of_constants(stack[i]) : ScriptItem{.constant = stack[i]});
  }
  return true;
}

// ---- questions

bool Interpreter::add_query(const JitNode& node, const std::string& op) {
  if (op == "aten::__is__" || op == "aten::__isnot__") {
    const ScriptItem a = settled(node.input(0)), b = settled(node.input(1));
    if (!a.is_none() && !b.is_none()) return false;
    if (a.is_unset || b.is_unset) return false;
    // Of what is not known only the type says that it is there.
    for (std::size_t i = 0; i < 2; ++i) {
      const ScriptItem& one = i == 0 ? a : b;
      const bool known = !one.id.valid() || graph_.type(one.id).kind != Type::Kind::unknown;
      if (!known && node.input(i)->type()->kind() == c10::TypeKind::OptionalType) return false;
    }
    set(node.output(), {.constant = (a.is_none() && b.is_none()) == (op == "aten::__is__")});
    return true;
  }
  if (op == "prim::is_cuda" || op == "prim::is_quantized" || op == "prim::is_sparse" || op == "prim::is_mkldnn" ||
      op == "prim::requires_grad") {
    set(node.output(), {.constant = false});
    return true;
  }
  if (node.inputs().empty() || !node.input(0)->type()->isSubtypeOf(*c10::TensorType::get())) return false;
  const ScriptItem tensor = settled(node.input(0));
  if (op == "prim::device") {
    set(node.output(), {.constant = c10::Device(c10::kCPU)});
    return true;
  }
  if (!tensor.id.valid()) return false;
  const Type type = graph_.type(tensor.id);  // nodes are added below
  if (op == "prim::dtype" && type.dtype != DType::undefined) {
    set(node.output(), {.constant = static_cast<std::int64_t>(carrier(type.dtype))});
  } else if (op == "prim::layout") {
    set(node.output(), {.constant = static_cast<std::int64_t>(at::kStrided)});
  } else if (op == "aten::is_floating_point" && type.dtype != DType::undefined) {
    set(node.output(), {.constant = is_float(type.dtype)});
  } else if ((op == "aten::dim" || op == "aten::ndimension") && type.ranked) {
    set(node.output(), {.constant = static_cast<std::int64_t>(type.shape.size())});
  } else if (op == "aten::size" && type.ranked && node.inputs().size() == 1) {
    ScriptItem sizes = {.is_list = true};
    name_place(node, op);
    ValueId shape;
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      if (type.shape[i].known()) {
        sizes.items.push_back({.constant = type.shape[i].size});
        continue;
      }
      if (!shape.valid()) shape = put("Shape", {tensor.id}).front();
      const ValueId index = graph_.constant(Tensor::scalar(static_cast<std::int64_t>(i)));
      sizes.items.push_back({.id = put("Gather", {shape, index}).front(), .is_number = true});
    }
    set(node.output(), std::move(sizes));
  } else {
    return false;
  }
  return true;
}

// ---- objects

void Interpreter::change(const std::shared_ptr<ScriptObject>& object, ScriptItem content) {
  if (object->shared) throw Refused("a value is changed of which a branch, a loop or the module holds a copy");
  journal_.emplace_back(object, object->content);
  object->content = std::move(content);
}

void Interpreter::mark_shared(const ScriptItem& item) {
  if (item.object) {
    item.object->shared = true;
    mark_shared(item.object->content);
  }
  for (const ScriptItem& one : item.items) mark_shared(one);
}

ScriptItem Interpreter::as_sequence(const ScriptItem& list, DType if_empty) {
  if (list.id.valid() && graph_.is_sequence(list.id)) return list;
  if (list.is_stacked) return {.id = put("SplitToSequence", {list.id}, {{"keepdims", std::int64_t{0}}}).front()};
  if (!list.is_list || !list.keys.empty()) throw Unsupported("a list changes that holds more than tensors");
  if (list.items.empty()) {
    return {.id = put("SequenceEmpty", {}, {{"dtype", static_cast<std::int64_t>(if_empty)}}).front()};
  }
  std::vector<ValueId> items;
  for (const ScriptItem& one : list.items) items.push_back(tensor_of(one));
  return {.id = put("SequenceConstruct", items).front()};
}

// ---- lists

namespace {

std::optional<std::size_t> place_in(const ScriptItem& list, const ScriptItem& index) {
  if (!index.is_constant()) return std::nullopt;
  if (!list.keys.empty()) {
    for (std::size_t i = 0; i < list.keys.size(); ++i) {
      if (list.keys[i] == index.constant) return i;
    }
    return std::nullopt;
  }
  if (!index.constant.isInt()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(list.items.size());
  const std::int64_t at = index.constant.toInt() + (index.constant.toInt() < 0 ? count : 0);
  if (at < 0 || at >= count) return std::nullopt;
  return static_cast<std::size_t>(at);
}

}  // namespace

bool Interpreter::add_list_op(const JitNode& node, const std::string& op) {
  if (node.inputs().empty()) return false;
  const c10::TypeKind kind = node.input(0)->type()->kind();
  if (kind != c10::TypeKind::ListType && kind != c10::TypeKind::DictType) return false;
  name_place(node, op);
  return change_list(node, op) || read_list(node, op);
}

bool Interpreter::change_list(const JitNode& node, const std::string& op) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || !schema->is_mutable()) return false;
  const std::shared_ptr<ScriptObject> object = at(node.input(0)).object;
  if (!object) throw Refused("node " + op + " changes a list that is not known");
  ScriptItem list = object->content;
  if (list.is_collecting) {
    if (op != "aten::append" || !list.items.empty()) throw Unsupported("a list changes more than once a round");
    list.items.push_back(at(node.input(1)));
    change(object, std::move(list));
    if (!node.outputs().empty()) values_[node.output()] = at(node.input(0));
    return true;
  }
  if (list.id.valid()) {
    if (op != "aten::append") throw Refused("node " + op + " changes a list whose length is not known");
    const ValueId added = tensor_of(settled(node.input(1)));
    const ValueId sequence = as_sequence(list, DType::float32).id;
    change(object, {.id = put("SequenceInsert", {sequence, added}).front()});
    if (!node.outputs().empty()) values_[node.output()] = at(node.input(0));
    return true;
  }
  if (!list.is_list) throw Refused("node " + op + " changes a list that is not known");
  ScriptItem result = at(node.input(0));
  if (op == "aten::append") {
    list.items.push_back(at(node.input(1)));
  } else if (op == "aten::clear") {
    list.items.clear();
    list.keys.clear();
  } else if (op == "aten::extend") {
    const ScriptItem& other = at(node.input(1));
    const ScriptItem& more = other.object ? other.object->content : other;
    if (!more.is_list) throw Refused("a list is extended by one that is not known");
    const std::vector<ScriptItem> added = more.items;
    list.items.insert(list.items.end(), added.begin(), added.end());
  } else if (op == "aten::_set_item" && is_dictionary(node)) {
    if (!at(node.input(1)).is_constant()) throw Refused("a dictionary has keys that are computed");
    const auto place = place_in(list, at(node.input(1)));
    if (place) {
      list.items[*place] = at(node.input(2));
    } else {
      list.keys.push_back(at(node.input(1)).constant);
      list.items.push_back(at(node.input(2)));
    }
  } else if (op == "aten::_set_item" || op == "aten::insert" || op == "aten::pop") {
    const bool at_end = op == "aten::pop" && node.inputs().size() == 1;
    const auto place = place_in(list, at_end ? ScriptItem{.constant = std::int64_t{-1}} : at(node.input(1)));
    if (!place) throw Refused("node " + op + " changes a list at a place that is not known");
    const auto position = list.items.begin() + static_cast<std::ptrdiff_t>(*place);
    if (op == "aten::_set_item") *position = at(node.input(2));
    else if (op == "aten::insert") list.items.insert(position, at(node.input(2)));
    else {
      result = *position;
      list.items.erase(position);
      if (!list.keys.empty()) list.keys.erase(list.keys.begin() + static_cast<std::ptrdiff_t>(*place));
    }
  } else {
    throw Refused("node " + op + " changes a list, in a way that cannot be said as a graph");
  }
  change(object, std::move(list));
  if (!node.outputs().empty()) values_[node.output()] = std::move(result);
  return true;
}

bool Interpreter::is_dictionary(const JitNode& node) {
  return node.input(0)->type()->kind() == c10::TypeKind::DictType;
}

// All items have one shape: for certain only when their sizes are known.
bool Interpreter::read_stacked(const JitNode& node, const std::string& op, ValueId all) {
  if (op == "aten::len") {
    const ValueId first = graph_.constant(Tensor::scalar(std::int64_t{0}));
    set(node.output(), {.id = put("Gather", {put("Shape", {all}).front(), first}).front()});
    return true;
  }
  if (op != "aten::__getitem__") return false;
  set(node.output(), {.id = put("Gather", {all, tensor_of(settled(node.input(1)))}).front()});
  return true;
}

bool Interpreter::read_list(const JitNode& node, const std::string& op) {
  const ScriptItem& value = at(node.input(0));
  ScriptItem list = value.object ? value.object->content : value;
  if (list.is_constant() && list.constant.isList()) list = list_of_constants(list.constant);
  if (list.is_collecting) throw Unsupported("a list is read while it grows");
  if (list.is_stacked) return read_stacked(node, op, list.id);
  if (list.id.valid() && graph_.is_sequence(list.id)) {
    if (op == "aten::len") set(node.output(), {.id = put("SequenceLength", {list.id}).front()});
    else if (op == "aten::__getitem__")
      set(node.output(), {.id = put("SequenceAt", {list.id, tensor_of(settled(node.input(1)))}).front()});
    else return false;
    return true;
  }
  if (list.id.valid()) {
    if (op != "aten::len") return false;
    const Type& type = graph_.type(list.id);
    if (!type.ranked || type.shape.size() != 1 || !type.shape[0].known()) return false;
    set(node.output(), {.constant = type.shape[0].size});
    return true;
  }
  if (!list.is_list) return false;
  const auto count = static_cast<std::int64_t>(list.items.size());
  if (op == "aten::len") {
    set(node.output(), {.constant = count});
  } else if (op == "aten::__contains__" && is_dictionary(node) && at(node.input(1)).is_constant()) {
    set(node.output(), {.constant = place_in(list, at(node.input(1))).has_value()});
  } else if (op == "aten::__getitem__") {
    const auto place = place_in(list, at(node.input(1)));
    if (!place) return false;
    ScriptItem item = list.items[*place];
    set(node.output(), std::move(item));
  } else if (op == "aten::list" || op == "aten::copy" || op == "aten::values") {
    if (op != "aten::copy") list.keys.clear();
    set(node.output(), std::move(list));
  } else if (op == "aten::keys") {
    ScriptItem keys = {.is_list = true};
    for (const c10::IValue& key : list.keys) keys.items.push_back({.constant = key});
    set(node.output(), std::move(keys));
  } else if (op == "aten::add" && node.inputs().size() == 2) {
    const ScriptItem& other = at(node.input(1));
    ScriptItem more = other.object ? other.object->content : other;
    if (more.is_constant() && more.constant.isList()) more = list_of_constants(more.constant);
    if (!more.is_list) return false;
    list.items.insert(list.items.end(), more.items.begin(), more.items.end());
    set(node.output(), std::move(list));
  } else if (op == "aten::slice") {
    const auto part = [&](std::size_t i, std::int64_t otherwise) -> std::optional<std::int64_t> {
      const ScriptItem& item = at(node.input(i));
      if (item.is_none()) return otherwise;
      if (!item.is_constant() || !item.constant.isInt()) return std::nullopt;
      const std::int64_t at = item.constant.toInt();
      return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count);
    };
    const auto from = part(1, 0), to = part(2, count);
    if (!from || !to || !at(node.input(3)).is_constant() || at(node.input(3)).constant != c10::IValue(1)) return false;
    ScriptItem some = {.is_list = true};
    for (std::int64_t i = *from; i < *to; ++i) some.items.push_back(list.items[static_cast<std::size_t>(i)]);
    set(node.output(), std::move(some));
  } else {
    return false;
  }
  return true;
}

}  // namespace finity
