// finity-onednn: runs and derives models node by node with oneDNN's primitives, for finity (exec/protocol.h). It reads
// the model with finity's own reader. A node for which there is no primitive is answered as unsupported, with its
// name; elements that only move, shapes and constants are the reference's work (movements.cpp).
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/memory_error.h"
#include "exec/received_model.h"
#include "exec/serve.h"
#include "onednn/call.h"
#include "types/infer.h"

namespace finity {
namespace {

using dnn::Backward;
using dnn::DnnCall;

// A descriptor that oneDNN refuses means that the primitive does not do this: the mapping to it is ours.
template <class F>
void with_onednn_errors(F&& f) {
  try {
    with_memory_errors(f);
  } catch (const dnnl::error& error) {
    const bool lacks = error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments;
    if (lacks) throw Unsupported(std::string("oneDNN: ") + error.what());
    throw Error(std::string("oneDNN: ") + error.what());
  }
}

// The values of one run, and how each node that ran is derived.
struct Run {
  std::vector<Datum> values;
  std::vector<std::pair<const Node*, Backward>> tape = {};
};

class OneDnn final : public Engine {
 public:
  Hello hello() const override {
    const dnnl_version_t* version = dnnl_version();
    return {.engine = "onednn",
            .version = std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                       std::to_string(version->patch)};
  }

  void load(std::string_view model, Optimisation level) override {
    graph_.reset();
    auto graph = received_model(model);
    infer_types(*graph);
    names_.clear();
    for (std::size_t i = 0; i < graph->values().size(); ++i) {
      const Value& value = graph->values()[i];
      if (value.body == Graph::kMain) names_.emplace(value.name, ValueId{static_cast<std::int32_t>(i)});
    }
    for (const NodeId id : graph->main().nodes) require_lowered(*graph, graph->node(id));
    graph_ = std::move(graph);
    level_ = level;
  }

  NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) override {
    const Run run = forward(request.inputs);
    stage(Stage::read);
    NamedData results;
    for (const std::string& name : request.outputs) results.emplace_back(name, value_of(run, find(name)));
    return results;
  }

  Gradients gradient(const GradientRequest& request, const std::function<void(Stage)>& stage) override {
    const Run run = forward(request.inputs);
    const ValueId output = find(request.output);
    const Tensor* value = run.values[output.at()].tensor();
    if (value == nullptr || value->size() != 1) throw Error("only a value with one element can be derived");
    if (value->dtype() != DType::float32) throw Unsupported("oneDNN derives float32 only");
    std::vector<std::optional<Tensor>> by(graph_->values().size());
    by[output.at()] = Tensor::scalar(1.0F).reshaped(value->dims());
    std::vector<bool> wanted = depending(request.names);
    for (auto step = run.tape.rbegin(); step != run.tape.rend(); ++step)
      backward(*step->first, step->second, wanted, by);
    stage(Stage::read);
    Gradients result{.value = run.values[output.at()], .gradients = {}};
    for (const std::string& name : request.names) {
      const ValueId id = find(name);
      result.gradients.emplace_back(name, by[id.at()] ? *by[id.at()] : zeros_like(value_of(run, id)));
    }
    return result;
  }

 private:
  static void require_lowered(const Graph& graph, const Node& node) {
    if (node.op == nullptr || dnn::find_lowering(*node.op) == nullptr)
      throw Unsupported(describe(graph, node) + ": oneDNN has no primitive for " + qualified_op(node));
  }

  ValueId find(const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) throw Error("the model has no value named '" + name + "'");
    return found->second;
  }

  Datum value_of(const Run& run, ValueId id) const {
    if (!id.valid() || run.values[id.at()].present()) return id.valid() ? run.values[id.at()] : Datum();
    const Value& value = graph_->value(id);
    if (value.constant) return value.constant->load();
    if (value.producer.valid()) return {};
    throw Error("input '" + value.name + "' is missing");
  }

  static Tensor zeros_like(const Datum& datum) {
    const Tensor* tensor = datum.tensor();
    if (tensor == nullptr || tensor->dtype() != DType::float32) throw Error("derivatives are of float32 tensors only");
    Tensor result(DType::float32, tensor->dims());
    std::ranges::fill(result.mutable_data<float>(), 0.0F);
    return result;
  }

  Run forward(const NamedData& inputs) const {
    if (graph_ == nullptr) throw Error("no model is loaded");
    Run run{.values = std::vector<Datum>(graph_->values().size())};
    for (const auto& [name, datum] : inputs) {
      const ValueId id = find(name);
      if (graph_->value(id).producer.valid()) throw Error("'" + name + "' is computed by the model");
      run.values[id.at()] = datum;
    }
    for (const NodeId id : graph_->main().nodes) {
      const Node& node = graph_->node(id);
      try {
        forward_node(node, run);
      } catch (Error& error) {
        error.in(describe(*graph_, node));
        throw;
      }
    }
    return run;
  }

  void forward_node(const Node& node, Run& run) const {
    std::vector<Datum> operands;
    for (const ValueId id : node.inputs) operands.push_back(value_of(run, id));
    DnnCall call(call_of(*graph_, node), operands, level_);
    with_onednn_errors([&] { dnn::find_lowering(*node.op)->lower(call); });
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) run.values[node.outputs[i].at()] = std::move(call.outs()[i]);
    }
    run.tape.emplace_back(&node, call.backward());
  }

  // The values that depend on one of the names.
  std::vector<bool> depending(const std::vector<std::string>& names) const {
    std::vector<bool> result(graph_->values().size());
    for (const std::string& name : names) {
      if (graph_->value(find(name)).producer.valid()) throw Error("'" + name + "' is computed by the model");
      result[find(name).at()] = true;
    }
    for (const NodeId id : graph_->main().nodes) {
      const Node& node = graph_->node(id);
      const bool any = std::ranges::any_of(node.inputs, [&](ValueId i) { return i.valid() && result[i.at()]; });
      for (const ValueId output : node.outputs) {
        if (output.valid() && any) result[output.at()] = true;
      }
    }
    return result;
  }

  void backward(const Node& node, const Backward& derive, const std::vector<bool>& wanted,
                std::vector<std::optional<Tensor>>& by) const {
    const auto is_wanted = [&](ValueId id) { return id.valid() && wanted[id.at()]; };
    std::vector<std::optional<Tensor>> given;
    for (const ValueId id : node.outputs) given.push_back(id.valid() ? by[id.at()] : std::nullopt);
    const bool reached = std::ranges::any_of(given, [](const auto& g) { return g.has_value(); });
    if (!reached || std::ranges::none_of(node.inputs, is_wanted)) return;
    if (!derive) throw Unsupported(describe(*graph_, node) + ": oneDNN has no derivative of " + qualified_op(node));
    std::vector<std::optional<Tensor>> derived;
    with_onednn_errors([&] { derived = derive(given); });
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_wanted(node.inputs[i])) continue;
      if (i >= derived.size() || !derived[i]) {
        throw Unsupported(describe(*graph_, node) + ": oneDNN has no derivative of " + qualified_op(node) +
                          " by input " + std::to_string(i));
      }
      add(by[node.inputs[i].at()], *derived[i]);
    }
  }

  static void add(std::optional<Tensor>& sum, const Tensor& more) {
    if (!sum) {
      sum = more;
      return;
    }
    const std::span<float> into = sum->mutable_data<float>();
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += more.data<float>()[i];
  }

  std::shared_ptr<const Graph> graph_;
  std::unordered_map<std::string, ValueId> names_;
  Optimisation level_ = Optimisation::none;
};

}  // namespace
}  // namespace finity

int main(int, char** argv) {
  // finity decides how much of the machine it uses, by the number of workers. OpenMP looks before main() is called.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    ::setenv("OMP_NUM_THREADS", "1", 1);
    ::execv("/proc/self/exe", argv);
  }
  return finity::serve([] { return std::make_unique<finity::OneDnn>(); });
}
