#include "torch/engine.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/version.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "exec/received_model.h"
#include "exec/torchscript.h"
#include "formats/onnx/onnx.h"
#include "program/remote.h"
#include "torch/program.h"
#include "torch/script/script.h"
#include "torch/training.h"

namespace finity {

namespace {

class TorchEngine final : public Engine {
 public:
  Hello hello() const override { return {.engine = "libtorch", .version = TORCH_VERSION}; }

  // Whatever the level: nodes run one by one as they are.
  void load(std::string_view model, Optimisation /*level*/) override {
    program_.reset();
    script_.reset();
    if (looks_like_torchscript(std::as_bytes(std::span(model)))) {
      script_ = std::make_unique<ImportedScript>(import_script(model));
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
    program.run(program.plan(wanted), run);
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
    if (request.text == kScriptTask) return script_as_onnx();
    loaded();
    return do_search(graph_, request, make_torch_training, tell);
  }

 private:
  TaskResult script_as_onnx() const {
    if (script_ == nullptr) throw Error("is not TorchScript");
    const std::string model = write_onnx(script_->graph);
    Tensor bytes(DType::uint8, {static_cast<std::int64_t>(model.size())});
    std::memcpy(bytes.mutable_bytes().data(), model.data(), model.size());
    TaskResult result;
    for (const std::string& note : script_->notes) result.text += note + "\n";
    result.data.emplace_back("model", std::move(bytes));
    return result;
  }

  const TorchProgram& loaded() const {
    if (program_ == nullptr) throw Error("no model is loaded");
    return *program_;
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

  std::shared_ptr<const Graph> graph_;
  std::unique_ptr<TorchProgram> program_;
  std::unique_ptr<ImportedScript> script_;
};

}  // namespace

std::unique_ptr<Engine> make_torch_engine(TorchKernels kernels) {
  if (kernels == TorchKernels::own) at::globalContext().setUserEnabledMkldnn(false);
  // finity decides how much of the machine it uses, by the number of workers.
  at::set_num_threads(1);
  return std::make_unique<TorchEngine>();
}

}  // namespace finity
