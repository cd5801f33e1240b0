// Branches: what is known decides; else they become If, with every list that changes inside among the results. Also
// what branches and loops share. What cannot be said stays unknown.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "torch/script/interpret.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

bool changes_anything(const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    if ((schema != nullptr && schema->is_mutable()) || node->kind() == c10::prim::SetAttr) return true;
    if (std::ranges::any_of(node->blocks(), [](const jit::Block* inner) { return changes_anything(*inner); }))
      return true;
  }
  return false;
}

}  // namespace

void Interpreter::roll_back(const Checkpoint& mark) {
  while (journal_.size() > mark.changes) {
    journal_.back().first->content = std::move(journal_.back().second);
    journal_.pop_back();
  }
  notes_.resize(mark.notes);
  unknown_.resize(mark.unknown);
  graph_.leave_to(mark.depth);
}

// Objects from outside the body that was entered at the mark, as they are now.
Interpreter::Changed Interpreter::changed_since(const Checkpoint& mark) const {
  Changed changed;
  for (std::size_t i = mark.changes; i < journal_.size(); ++i) {
    const auto& object = journal_[i].first;
    if (object->depth <= mark.depth) changed[object] = settled(object->content);
  }
  return changed;
}

bool same_constant(const ScriptItem& a, const ScriptItem& b) {
  if (!a.is_constant() || !b.is_constant() || a.constant.isTensor() || b.constant.isTensor()) return false;
  if (a.constant.tagKind() != b.constant.tagKind()) return false;
  const bool plain = a.constant.isScalar() || a.constant.isBool() || a.constant.isString() || a.constant.isNone();
  return plain ? a.constant == b.constant : a.constant.is(b.constant);
}

std::string words_of(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

void Interpreter::fill(ScriptItem& item, const std::vector<ValueId>& results) {
  if (item.leaf >= 0) {
    item.id = results.at(static_cast<std::size_t>(item.leaf));
    item.constant = {};
    item.leaf = -1;
  }
  for (ScriptItem& one : item.items) fill(one, results);
}

void Interpreter::leave_unknown(const JitNode& node, const Checkpoint& mark, const std::string& reason) {
  roll_back(mark);
  const std::string op = node.kind().toQualString();
  for (const JitBlock* block : node.blocks()) {
    if (changes_anything(*block))
      throw Refused("node " + op + " changes values in place, in a way that cannot be said as a graph: " + reason);
  }
  name_place(node, op);
  stay_unknown(node, op, reason);
}

// ---- branches

struct Interpreter::Arm {
  BodyId body = {};
  std::vector<ScriptItem> outputs = {};
  Changed changed = {};
  std::vector<std::pair<std::string, std::string>> unknown = {};
  bool raises = false;
};

void Interpreter::take_block(const JitNode& node, const JitBlock& block) {
  run_block(block);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    ScriptItem item = at(block.outputs()[i]);
    set(node.outputs()[i], std::move(item));
  }
}

void Interpreter::add_branch(const JitNode& node) {
  const ScriptItem condition = settled(node.input());
  if (const std::optional<bool> known = truth(condition)) return take_block(node, *node.blocks()[*known ? 0 : 1]);
  const Checkpoint mark = checkpoint();
  try {
    join_arms(node, condition);
  } catch (const Refused&) {
    throw;
  } catch (const Error& error) {
    leave_unknown(node, mark, error.what());
  } catch (const c10::Error& error) {
    leave_unknown(node, mark, words_of(error));
  }
}

Interpreter::Arm Interpreter::run_arm(const JitBlock& block, const char* name) {
  const Checkpoint mark = checkpoint();
  Arm arm = {.body = graph_.open_body(name)};
  try {
    run_block(block);
    for (const JitValue* output : block.outputs()) {
      mark_shared(at(output));
      arm.outputs.push_back(settled(output));
    }
    arm.changed = changed_since(mark);
  } catch (const Raised&) {
    arm.raises = true;
  }
  arm.unknown.assign(unknown_.begin() + static_cast<std::ptrdiff_t>(mark.unknown), unknown_.end());
  roll_back(mark);
  return arm;
}

// Something of the same type, where nothing reads it.
ValueId Interpreter::stand_in(const ScriptItem& other) {
  const ValueId like = tensor_of(other);
  const Type& type = graph_.type(like);
  const std::optional<Dims> dims = type.dims();
  if (!type.is_tensor() || type.dtype == DType::undefined || !dims) throw Unsupported("leaves a value unset");
  return graph_.constant(Tensor(type.dtype, *dims));
}

// What a branch gives, from what its arms do: the pairs are its results.
ScriptItem Interpreter::joined(const ScriptItem& a, const ScriptItem& b,
                               std::vector<std::pair<ScriptItem, ScriptItem>>& leaves) {
  if (a.is_collecting || b.is_collecting) throw Unsupported("a list grows in one arm");
  if (a.is_unset && b.is_unset) return a;
  if ((a.is_unset && b.is_none()) || same_constant(a, b)) return b;
  if (b.is_unset && a.is_none()) return a;
  if ((a.is_unset && b.is_list) || (b.is_unset && a.is_list)) {
    const ScriptItem& told = a.is_unset ? b : a;
    ScriptItem list = {.is_list = true, .keys = told.keys};
    for (const ScriptItem& one : told.items)
      list.items.push_back(a.is_unset ? joined(a, one, leaves) : joined(one, b, leaves));
    return list;
  }
  const auto is_sequence = [&](const ScriptItem& item) { return item.id.valid() && graph_.is_sequence(item.id); };
  const bool two_lengths = a.is_list && b.is_list && a.items.size() != b.items.size();
  if (two_lengths || (a.is_list && is_sequence(b)) || (b.is_list && is_sequence(a))) {
    if (!a.keys.empty() || !b.keys.empty()) throw Unsupported("its arms give dictionaries of two kinds");
    leaves.emplace_back(a, b);
    ScriptItem sequence;
    sequence.leaf = static_cast<int>(leaves.size()) - 1;
    return sequence;
  }
  if (a.is_list && b.is_list) {
    if (a.keys != b.keys) throw Unsupported("its arms give dictionaries of two kinds");
    ScriptItem list = {.is_list = true, .keys = a.keys};
    for (std::size_t i = 0; i < a.items.size(); ++i) list.items.push_back(joined(a.items[i], b.items[i], leaves));
    return list;
  }
  if (a.is_list || b.is_list || a.is_none() || b.is_none()) throw Unsupported("its arms give values of two kinds");
  leaves.emplace_back(a, b);
  ScriptItem leaf = {.is_number = a.is_number && b.is_number};
  leaf.leaf = static_cast<int>(leaves.size()) - 1;
  return leaf;
}

DType Interpreter::element_type(ValueId id) const {
  const Type& type = graph_.type(id);
  return type.element ? type.element->dtype : type.dtype;
}

// What an arm gives, when the other gives something else: a list of another length is a sequence.
ValueId Interpreter::result_of(const ScriptItem& item, const ScriptItem& other) {
  if (item.is_unset) return stand_in(other);
  if (!item.is_list) return tensor_of(item);
  DType if_empty = DType::float32;
  if (other.id.valid()) if_empty = element_type(other.id);
  else if (!other.items.empty() && other.items[0].id.valid()) if_empty = element_type(other.items[0].id);
  return as_sequence(item, if_empty).id;
}

void Interpreter::join_arms(const JitNode& node, const ScriptItem& condition) {
  Arm then = run_arm(*node.blocks()[0], "then"), otherwise = run_arm(*node.blocks()[1], "else");
  if (then.raises && otherwise.raises) throw Raised{"both arms of a branch raise one"};
  // Where an arm raises there are no results: what follows belongs to the other.
  if (then.raises) return take_block(node, *node.blocks()[1]);
  if (otherwise.raises) return take_block(node, *node.blocks()[0]);

  std::vector<std::pair<ScriptItem, ScriptItem>> leaves;
  std::vector<ScriptItem> results;
  for (std::size_t i = 0; i < then.outputs.size(); ++i)
    results.push_back(joined(then.outputs[i], otherwise.outputs[i], leaves));
  Changed changed;
  for (const Arm* arm : {&then, &otherwise}) {
    for (const auto& [object, content] : arm->changed) changed.try_emplace(object);
  }
  for (auto& [object, content] : changed) {
    const auto of = [&](const Arm& arm) {
      const auto found = arm.changed.find(object);
      return found == arm.changed.end() ? settled(object->content) : found->second;
    };
    content = joined(of(then), of(otherwise), leaves);
  }

  std::vector<ValueId> ids;
  if (!leaves.empty()) {
    std::vector<ValueId> left, right;
    graph_.open_again(then.body);
    for (const auto& [a, b] : leaves) left.push_back(result_of(a, b));
    graph_.close_body(left);
    graph_.open_again(otherwise.body);
    for (const auto& [a, b] : leaves) right.push_back(result_of(b, a));
    graph_.close_body(right);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const DType da = element_type(left[i]), db = element_type(right[i]);
      if (da != db && da != DType::undefined && db != DType::undefined)
        throw Unsupported("its arms give two element types");
    }
    name_place(node, "prim::If");
    Attrs attrs;
    attrs.set("then_branch", then.body);
    attrs.set("else_branch", otherwise.body);
    ids = graph_.add("If", {tensor_of(condition)}, std::move(attrs), leaves.size());
  }
  unknown_.insert(unknown_.end(), then.unknown.begin(), then.unknown.end());
  unknown_.insert(unknown_.end(), otherwise.unknown.begin(), otherwise.unknown.end());
  for (std::size_t i = 0; i < results.size(); ++i) {
    fill(results[i], ids);
    set(node.outputs()[i], std::move(results[i]));
    mark_shared(at(node.outputs()[i]));
  }
  for (auto& [object, content] : changed) {
    fill(content, ids);
    change(object, std::move(content));
  }
}

}  // namespace finity
