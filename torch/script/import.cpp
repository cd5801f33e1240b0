#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/remove_mutation.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "torch/script/interpret.h"
#include "torch/script/script.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

struct Plain {
  jit::Module module;
  std::shared_ptr<jit::Graph> graph;
};

// Written without its underscore it gives the same: a second tensor could make the result wider, comparisons give
// truths.
bool keeps_element_type(jit::Node* node) {
  constexpr std::array<std::string_view, 13> kTruths = {
      "aten::eq_",      "aten::ne_", "aten::not_equal_",  "aten::lt_", "aten::less_",          "aten::gt_",
      "aten::greater_", "aten::le_", "aten::less_equal_", "aten::ge_", "aten::greater_equal_", "aten::logical_not_",
      "aten::copy_"};
  const auto is_tensor = [](const jit::Value* input) { return input->type()->isSubtypeOf(*c10::TensorType::get()); };
  return std::ranges::count_if(node->inputs(), is_tensor) == 1 &&
         std::ranges::find(kTruths, std::string_view(node->kind().toQualString())) == kTruths.end();
}

// One block without calls and assignments to what exists already, as far as LibTorch can do that.
Plain plain_graph(jit::Module module) {
  if (!module.find_method("forward")) throw Error("the module has no method 'forward'");
  module.eval();
  // Numbers stay what they are: nothing is folded into convolutions.
  const jit::Module frozen = jit::freeze(module, c10::nullopt, /*optimize_numerics=*/false);
  std::shared_ptr<jit::Graph> graph = frozen.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  jit::RemoveListMutation(graph);
  jit::RemoveTensorMutation(graph, keeps_element_type);
  jit::LowerSimpleTuples(graph);
  jit::ConstantPropagation(graph);
  jit::PeepholeOptimize(graph);
  jit::ConstantPropagation(graph);
  jit::EliminateDeadCode(graph);
  return {frozen, graph};
}

// LibTorch puts its own stack, with many lines, around what it says.
std::string first_line(const std::string& text) {
  const std::size_t start = text.find_first_not_of(" \n");
  return start == std::string::npos ? "" : text.substr(start, text.find('\n', start) - start);
}

}  // namespace

ImportedScript import_script(std::string_view bytes, const Bindings& bindings) {
  try {
    std::istringstream stream{std::string(bytes)};
    const Plain plain = plain_graph(jit::load(stream));
    return Interpreter(bindings).run(plain.graph, plain.module.get_method("forward").function().getSchema(),
                                     plain.module._ivalue());
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error("LibTorch cannot read it: " + first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error("LibTorch cannot read it: " + first_line(error.what()));
  }
}

}  // namespace finity
