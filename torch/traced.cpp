#include "torch/traced.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/graph_rewrite_helper.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "torch/errors.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

const at::Tensor& tensor_of(const TorchRun& run, const TorchProgram& program, ValueId id) {
  const TorchValue& value = run.at(id);
  if (!value.tensor.defined())
    throw Unsupported("'" + program.graph().value(id).name + "' is no tensor that TorchScript takes");
  return value.tensor;
}

// The graph as the method `forward` of a module that is not being trained.
jit::Module module_of(const std::shared_ptr<jit::Graph>& graph) {
  jit::Module module("finity");
  module.register_attribute("training", c10::BoolType::get(), false);
  graph->insertInput(0, "self")->setType(module._ivalue()->type());
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
  return module;
}

// The interpreter puts its own stack before what failed.
std::string words_of(const std::string& text) {
  constexpr std::string_view kMark = "RuntimeError: ";
  const std::size_t mark = text.rfind(kMark);
  const std::string words = mark == std::string::npos ? text : text.substr(mark + kMark.size());
  return words.substr(0, words.find('\n'));
}

template <class F>
void with_script_errors(F&& f) {
  try {
    with_torch_errors(f);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(words_of(error.what()));
  }
}

}  // namespace

struct ScriptedProgram::Compiled {
  jit::Module module;
};

ScriptedProgram::~ScriptedProgram() = default;

ScriptedProgram::ScriptedProgram(const TorchProgram& program, std::vector<NodeId> plan, TorchRun& run,
                                 std::vector<ValueId> given, std::vector<ValueId> wanted, bool rewrite)
    : given_(std::move(given)), rewritten_(rewrite) {
  jit::Stack operands;
  for (const ValueId id : given_) operands.emplace_back(tensor_of(run, program, id));
  const auto traced = [&](jit::Stack stack) {
    for (std::size_t i = 0; i < given_.size(); ++i)
      run.set(given_[i], {.dtype = run.at(given_[i]).dtype, .tensor = stack[i].toTensor()});
    program.run(plan, run);
    std::vector<c10::IValue> results;
    for (const ValueId id : wanted) {
      results.emplace_back(tensor_of(run, program, id));
      dtypes_.push_back(run.at(id).dtype);
    }
    return jit::Stack{c10::ivalue::Tuple::create(std::move(results))};
  };
  std::shared_ptr<jit::Graph> graph;
  try {
    with_script_errors([&] {
      graph =
          jit::tracer::trace(std::move(operands), traced, [](const at::Tensor&) { return std::string(); }).first->graph;
    });
  } catch (const Unsupported&) {
    throw;
  } catch (const Error& error) {
    throw Unsupported(std::string("not traced: ") + error.what());
  }
  with_script_errors([&] {
    jit::graph_rewrite_helper::replaceConvolutionWithAtenConv(graph);
    jit::Module module = module_of(graph);
    compiled_ = std::make_unique<Compiled>(Compiled{rewrite ? jit::optimize_for_inference(module) : module});
  });
}

std::string ScriptedProgram::file() const {
  std::ostringstream out;
  with_script_errors([&] { compiled_->module.save(out); });
  return out.str();
}

std::vector<TorchValue> ScriptedProgram::run(const TorchRun& run) const {
  std::vector<c10::IValue> operands;
  for (const ValueId id : given_) operands.emplace_back(run.at(id).tensor);
  std::vector<TorchValue> values;
  const jit::GraphOptimizerEnabledGuard executor(rewritten_);
  with_script_errors([&] {
    const c10::IValue results = compiled_->module.forward(operands);
    for (const c10::IValue& result : results.toTupleRef().elements())
      values.push_back({.dtype = dtypes_[values.size()], .tensor = result.toTensor()});
  });
  return values;
}

}  // namespace finity
