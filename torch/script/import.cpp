#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/remove_mutation.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/script.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

// One block without calls, tuples and assignments to what exists already, as far as LibTorch can do that.
std::shared_ptr<jit::Graph> plain_graph(jit::Module module) {
  if (!module.find_method("forward")) throw Error("the module has no method 'forward'");
  module.eval();
  // Numbers stay what they are: nothing is folded into convolutions.
  const jit::Module frozen = jit::freeze(module, c10::nullopt, /*optimize_numerics=*/false);
  std::shared_ptr<jit::Graph> graph = frozen.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  jit::RemoveListMutation(graph);
  jit::RemoveTensorMutation(graph);
  jit::LowerSimpleTuples(graph);
  jit::ConstantPropagation(graph);
  jit::PeepholeOptimize(graph);
  jit::ConstantPropagation(graph);
  jit::EliminateDeadCode(graph);
  return graph;
}

// What LibTorch could not say without assignments is refused: every alias of what is changed would have to change with
// it, and a graph that went on with the old value would prove what is not true.
void refuse_changes_in_place(const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema != nullptr && schema->is_mutable()) {
      const auto place = node->sourceRange().file_line_col();
      const std::string line = place ? " (line " + std::to_string(std::get<1>(*place)) + " of its source)" : "";
      throw Error("node " + std::string(node->kind().toQualString()) + line +
                  " changes a value in place, in a way that cannot be said as a graph");
    }
    for (const jit::Block* inner : node->blocks()) refuse_changes_in_place(*inner);
  }
}

const ScriptLowering* find_script_lowering(std::string_view op) {
  constexpr std::string_view kAten = "aten::";
  if (!op.starts_with(kAten)) return nullptr;
  op.remove_prefix(kAten.size());
  for (const auto table : {script_math(), script_layers(), script_shapes()}) {
    const auto found = std::ranges::find(table, op, &ScriptLowering::op);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

bool has_letter(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

class Importer {
 public:
  ImportedScript run(const jit::Graph& graph) {
    add_inputs(graph);
    for (const jit::Node* node : graph.nodes()) add(*node);
    for (const jit::Value* output : graph.outputs()) add_outputs(at(output));
    return {std::move(graph_).finish(), std::move(notes_)};
  }

 private:
  // A file says neither shapes nor element types: what the first ops ask for is assumed.
  Type type_of_input(const jit::Value& value) const {
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
    }
    if (const auto type = value.type()->cast<c10::TensorType>()) {
      if (const auto scalar = type->scalarType()) dtype = *scalar == at::kLong ? DType::int64 : dtype;
      if (const auto sizes = type->sizes().concrete_sizes()) return Type::tensor_of(dtype, *sizes);
    } else {
      return Type::tensor_of(value.type()->kind() == c10::TypeKind::IntType ? DType::int64 : dtype, {});
    }
    return rank == 0 ? Type::tensor(dtype) : Type::tensor(dtype, Shape(rank, Dim{.size = -1, .least = 1}));
  }

  void add_inputs(const jit::Graph& graph) {
    for (const jit::Value* input : graph.inputs()) {
      if (input->type()->kind() == c10::TypeKind::ClassType) continue;  // the module itself
      const std::string name = clean(input->debugName());
      const Type type = type_of_input(*input);
      const char* assumed = type.dtype == DType::int64 ? "int64" : "float32";
      notes_.push_back("input '" + name + "' is taken for " + assumed +
                       (type.ranked ? "" : " of unknown shape; --shape gives it"));
      values_[input] = {.id = graph_.input(name, type)};
    }
  }

  // "x.1" of the first x is how LibTorch numbers names.
  static std::string clean(std::string name) {
    if (name.ends_with(".1")) name.resize(name.size() - 2);
    return has_letter(name) ? name : "value_" + name;
  }

  const ScriptItem& at(const jit::Value* value) {
    const auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    throw Error("value '" + value->debugName() + "' is not defined");
  }

  void add(const jit::Node& node) {
    const std::string op = node.kind().toQualString();
    if (node.kind() == c10::prim::Constant) {
      values_[node.output()] = {.constant = jit::toIValue(node.output()).value_or(c10::IValue())};
      return;
    }
    if (op == "prim::ListConstruct" || op == "prim::TupleConstruct") {
      ScriptItem list = {.is_list = true};
      for (const jit::Value* input : node.inputs()) list.items.push_back(at(input));
      values_[node.output()] = std::move(list);
      return;
    }
    if (op == "prim::NumToTensor") {
      values_[node.output()] = at(node.input());
      return;
    }
    if ((op == "prim::ListUnpack" || op == "prim::TupleUnpack") && unpack(node)) return;
    lower(node, op);
  }

  // Numbers that are computed together, as the sizes of a tensor are.
  void unpack_numbers(const jit::Node& node, ValueId numbers) {
    graph_.set_place(clean(node.input()->debugName()));
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      const ValueId index = graph_.constant(Tensor::scalar(static_cast<std::int64_t>(i)));
      values_[node.outputs()[i]] = {.id = graph_.add("Gather", {numbers, index}, Attrs(), 1).front()};
    }
  }

  bool unpack(const jit::Node& node) {
    const ScriptItem& list = at(node.input());
    if (list.id.valid() && node.input()->type()->isSubtypeOf(*c10::ListType::ofInts())) {
      unpack_numbers(node, list.id);
      return true;
    }
    if (!list.is_list || list.items.size() != node.outputs().size()) return false;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      ScriptItem item = list.items[i];
      values_[node.outputs()[i]] = std::move(item);
    }
    return true;
  }

  void lower(const jit::Node& node, const std::string& op) {
    const std::string name = node.outputs().empty() ? op : clean(node.outputs()[0]->debugName());
    graph_.set_place(has_letter(name) && !name.starts_with("value_") ? name : op.substr(op.rfind(':') + 1));
    const ScriptLowering* lowering = find_script_lowering(op);
    std::string reason = lowering == nullptr ? "is not known" : "";
    if (lowering != nullptr) {
      try {
        ScriptCall call(graph_, op, arguments_of(node), node.outputs().size());
        lowering->lower(call);
        if (call.given.size() >= node.outputs().size()) {
          for (std::size_t i = 0; i < node.outputs().size(); ++i) values_[node.outputs()[i]] = call.given[i];
          return;
        }
        reason = "gives more than is known of it";
      } catch (const Error& error) {
        reason = error.what();
      } catch (const c10::Error& error) {
        reason = error.what_without_backtrace();
      }
    }
    stay_unknown(node, op, reason);
  }

  void stay_unknown(const jit::Node& node, const std::string& op, const std::string& reason) {
    std::vector<ValueId> operands;
    for (const jit::Value* input : node.inputs()) collect(at(input), operands);
    for (const jit::Block* block : node.blocks()) collect_outer(*block, operands);
    const std::vector<ValueId> results = graph_.add_unknown(op, operands, node.outputs().size());
    for (std::size_t i = 0; i < node.outputs().size(); ++i) values_[node.outputs()[i]] = {.id = results[i]};
    notes_.push_back(op + ": " + reason);
  }

  // What the inside of a branch or loop reads.
  void collect_outer(const jit::Block& block, std::vector<ValueId>& operands) {
    for (const jit::Node* node : block.nodes()) {
      for (const jit::Value* input : node->inputs()) {
        const auto found = values_.find(input);
        if (found != values_.end()) collect(found->second, operands);
      }
      for (const jit::Block* inner : node->blocks()) collect_outer(*inner, operands);
    }
  }

  static void collect(const ScriptItem& item, std::vector<ValueId>& operands) {
    if (item.id.valid()) operands.push_back(item.id);
    for (const ScriptItem& one : item.items) collect(one, operands);
  }

  std::map<std::string, ScriptItem, std::less<>> arguments_of(const jit::Node& node) {
    std::map<std::string, ScriptItem, std::less<>> arguments;
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (schema == nullptr) throw Unsupported("has no schema");
    for (std::size_t i = 0; i < node.inputs().size() && i < schema->arguments().size(); ++i) {
      arguments[schema->arguments()[i].name()] = at(node.inputs()[i]);
    }
    return arguments;
  }

  void add_outputs(const ScriptItem& item) {
    if (item.is_list) {
      for (const ScriptItem& one : item.items) add_outputs(one);
      return;
    }
    if (item.id.valid()) graph_.add_output(item.id);
    else notes_.push_back("an output is a constant, and is left out");
  }

  ScriptGraph graph_;
  std::unordered_map<const jit::Value*, ScriptItem> values_;
  std::vector<std::string> notes_;
};

}  // namespace

ImportedScript import_script(std::string_view bytes) {
  try {
    std::istringstream stream{std::string(bytes)};
    const std::shared_ptr<jit::Graph> graph = plain_graph(jit::load(stream));
    refuse_changes_in_place(*graph->block());
    return Importer().run(*graph);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error("LibTorch cannot read it: " + text.substr(0, text.find('\n')));
  }
}

}  // namespace finity
