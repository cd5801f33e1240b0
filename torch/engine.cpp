#include "torch/engine.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "exec/received_model.h"
#include "exec/torchscript.h"
#include "formats/onnx/onnx.h"
#include "program/remote.h"
#include "torch/optimisers.h"
#include "torch/program.h"
#include "torch/script/script.h"
#include "torch/traced.h"
#include "torch/training.h"

namespace finity {

namespace {

class TorchEngine final : public Engine {
 public:
  explicit TorchEngine(bool traces) : traces_(traces) {}

  Hello hello() const override { return {.engine = "libtorch", .version = TORCH_VERSION}; }

  // Without TorchScript nodes run one by one, whatever the level.
  void load(std::string_view model, Optimisation level) override {
    scripted_.reset();
    rewrites_ = level != Optimisation::none;
    program_.reset();
    script_.clear();
    if (looks_like_torchscript(std::as_bytes(std::span(model)))) {
      script_ = model;
      return;
    }
    graph_ = received_model(model);
    program_ = std::make_unique<TorchProgram>(graph_);
  }

  NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) override {
    const TorchProgram& program = loaded();
    TorchRun run(program.graph());
    const at::NoGradGuard no_derivatives;
    set_inputs(run, request.inputs);
    std::vector<ValueId> wanted;
    for (const std::string& name : request.outputs) wanted.push_back(program.find(name));
    if (traces_) run_scripted(request, wanted, run);
    else program.run(program.plan(wanted), run);
    stage(Stage::read);
    NamedData results;
    for (const ValueId id : wanted) results.emplace_back(program.graph().value(id).name, to_datum(value_of(run, id)));
    return results;
  }

  Gradients gradient(const GradientRequest& request, const std::function<void(Stage)>& stage) override {
    const TorchProgram& program = loaded();
    TorchRun run(program.graph());
    set_inputs(run, request.inputs);
    std::vector<ValueId> ids;
    for (const std::string& name : request.names) {
      const ValueId id = program.find(name);
      if (program.graph().value(id).producer.valid()) throw Error("'" + name + "' is computed by the model");
      if (!run.values[id.at()].present()) run.set(id, value_of(run, id));
      run.require_gradient(id);
      ids.push_back(id);
    }
    const ValueId output = program.find(request.output);
    program.run(program.plan({{output}}, ids), run);
    const std::vector<TorchValue> derived = gradients(run, output, ids);
    stage(Stage::read);
    Gradients result{.value = to_datum(run.at(output)), .gradients = {}};
    for (std::size_t i = 0; i < ids.size(); ++i) result.gradients.emplace_back(request.names[i], to_datum(derived[i]));
    return result;
  }

  TaskResult task(const TaskRequest& request, const std::function<bool(const std::string&)>& tell) override {
    constexpr std::string_view kOptimiser = "optimiser ";
    if (request.text.starts_with(kOptimiser))
      return {.data = optimiser_step(request.text.substr(kOptimiser.size()), request.data)};
    if (request.text == "trace") return {.text = file_of(request.data)};
    if (request.text.starts_with(kScriptTask)) return script_as_onnx(request.text.substr(kScriptTask.size()));
    loaded();
    return do_search(graph_, request, make_torch_training, tell);
  }

 private:
  // Sizes of inputs stand behind the task's name, a line each.
  TaskResult script_as_onnx(const std::string& shapes) const {
    if (script_.empty()) throw Error("is not TorchScript");
    Bindings bindings;
    std::istringstream lines(shapes);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) add_binding(bindings, line);
    }
    const ImportedScript script = import_script(script_, bindings);
    const std::string model = write_onnx(script.graph);
    Tensor bytes(DType::uint8, {static_cast<std::int64_t>(model.size())});
    std::memcpy(bytes.mutable_bytes().data(), model.data(), model.size());
    TaskResult result;
    for (const std::string& note : script.notes) result.text += note + "\n";
    result.data.emplace_back("model", std::move(bytes));
    return result;
  }

  const TorchProgram& loaded() const {
    if (program_ == nullptr) throw Error("no model is loaded");
    return *program_;
  }

  // Traced anew only for other inputs: what a lowering reads as a number is a constant of the trace.
  void run_scripted(const RunRequest& request, const std::vector<ValueId>& wanted, TorchRun& run) {
    std::vector<ValueId> given;
    for (const auto& [name, datum] : request.inputs) given.push_back(program_->find(name));
    if (scripted_ == nullptr || !same(traced_, request)) {
      const std::vector<NodeId> plan = program_->plan(wanted);
      TorchRun first(program_->graph());
      set_inputs(first, request.inputs);
      program_->run(plan, first);  // loads constants, so that the trace finds them there
      scripted_ = std::make_unique<ScriptedProgram>(*program_, plan, first, given, wanted, rewrites_);
      traced_ = request;
    }
    std::vector<TorchValue> values = scripted_->run(run);
    for (std::size_t i = 0; i < wanted.size(); ++i) run.set(wanted[i], std::move(values[i]));
  }

  // The calls that the model comes to, as a file of TorchScript.
  std::string file_of(const NamedData& inputs) const {
    const TorchProgram& program = loaded();
    TorchRun run(program.graph());
    const at::NoGradGuard no_derivatives;
    set_inputs(run, inputs);
    std::vector<ValueId> given, wanted = program.graph().main().outputs;
    for (const auto& [name, datum] : inputs) given.push_back(program.find(name));
    const std::vector<NodeId> plan = program.plan(wanted);
    program.run(plan, run);
    return ScriptedProgram(program, plan, run, given, wanted, /*rewrite=*/false).file();
  }

  static bool same(const RunRequest& a, const RunRequest& b) {
    const auto alike = [](const auto& x, const auto& y) {
      const Tensor *s = x.second.tensor(), *t = y.second.tensor();
      return x.first == y.first && s != nullptr && t != nullptr && s->dtype() == t->dtype() && s->dims() == t->dims() &&
             std::ranges::equal(s->bytes(), t->bytes());
    };
    return a.outputs == b.outputs && std::ranges::equal(a.inputs, b.inputs, alike);
  }

  // Inputs, and weights to replace.
  void set_inputs(TorchRun& run, const NamedData& inputs) const {
    const Graph& graph = program_->graph();
    for (const auto& [name, datum] : inputs) {
      const ValueId id = program_->find(name);
      if (graph.value(id).producer.valid()) throw Error("'" + name + "' is computed by the model");
      run.set(id, to_value(datum));
    }
  }

  // What was set or computed, else the constant of the model.
  TorchValue value_of(const TorchRun& run, ValueId id) const {
    if (run.values[id.at()].present()) return run.values[id.at()];
    const Value& value = program_->graph().value(id);
    if (value.constant) return to_value(value.constant->load());
    if (value.producer.valid()) return {};
    throw Error("input '" + value.name + "' is missing");
  }

  bool traces_, rewrites_ = false;
  std::shared_ptr<const Graph> graph_;
  std::unique_ptr<TorchProgram> program_;
  std::unique_ptr<ScriptedProgram> scripted_;
  RunRequest traced_;   // what it was traced with
  std::string script_;  // a file that was given as TorchScript
};

}  // namespace

std::unique_ptr<Engine> make_torch_engine(TorchKernels kernels, bool script) {
  if (kernels == TorchKernels::own) at::globalContext().setUserEnabledMkldnn(false);
  // finity decides how much of the machine it uses, by the number of workers.
  at::set_num_threads(1);
  return std::make_unique<TorchEngine>(script);
}

}  // namespace finity
