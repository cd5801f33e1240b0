// Training on the reference: every pass is a graph of its own, with its gradients as nodes. Slow, and always there.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "exec/first_failure.h"
#include "exec/reference.h"
#include "gradient/gradient.h"
#include "program/engine.h"
#include "program/failing_nodes.h"
#include "program/optimiser.h"
#include "program/trainer.h"
#include "tensor/convert.h"
#include "types/graph_writer.h"

namespace finity {

namespace {

// A graph that computes some values and the gradients of one of them. Ids are those of the program.
struct Plan {
  Graph graph = {};
  std::size_t values = 0;
  std::vector<bool> derived = {};  // which of the wanted gradients are there, as further outputs
};

struct Memory {
  OptimiserState<float> narrow = {};
  OptimiserState<double> wide = {};
};

class ReferenceEngine final : public TrainingEngine {
 public:
  explicit ReferenceEngine(const Program& program)
      : program_(program), phases_(phases_of(program)), memory_(program.weights.size()) {
    for (const Phase& phase : phases_) {
      Pass pass = {.read = {phase.loss}, .derived = phase.loss};
      for (const std::size_t weight : phase.weights) pass.by.push_back(program.weights[weight].id);
      phase_plans_.push_back(plan_of(pass));
      phase_passes_.push_back(std::move(pass));
    }
    Pass updates;
    for (const ProgramWeight& weight : program.weights) {
      if (!weight.update.empty()) updates.read.push_back(find(weight.update));
    }
    if (!updates.read.empty()) update_plan_ = plan_of(updates);
    has_updates_ = !updates.read.empty();
  }

  std::string name() const override { return "reference"; }

  std::size_t add_pass(Pass pass) override {
    plans_.push_back(plan_of(pass));
    passes_.push_back(std::move(pass));
    return passes_.size() - 1;
  }

  void start(std::span<const Tensor> weights) override {
    weights_.assign(weights.begin(), weights.end());
    memory_.assign(weights.size(), {});
    step_ = 0;
  }
  Tensor weight(std::size_t i) const override { return weights_[i]; }
  void set_weight(std::size_t i, const Tensor& weight) override { weights_[i] = weight; }
  void feed(ValueId input, const Tensor& tensor) override { fed_[input] = tensor; }
  void set_seed(std::uint64_t seed) override { seed_ = seed; }

  PassResult run(std::size_t pass) override { return run_plan(plans_[pass], passes_[pass]); }

  bool train() override {
    const std::shared_ptr<const State> before = phases_.size() > 1 ? state() : nullptr;
    ++step_;
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      const PassResult result = run_plan(phase_plans_[i], phase_passes_[i]);
      if (!all_finite(result.values[0]) || !std::ranges::all_of(result.gradients, all_finite)) {
        if (before != nullptr) go_back(*before);
        else --step_;
        return false;
      }
      for (std::size_t k = 0; k < phases_[i].weights.size(); ++k) update(phases_[i].weights[k], result.gradients[k]);
    }
    if (!has_updates_) return true;
    const std::vector<Datum> next = outputs_of(update_plan_.graph);
    std::size_t k = 0;
    for (std::size_t i = 0; i < program_.weights.size(); ++i) {
      if (!program_.weights[i].update.empty()) weights_[i] = *next[k++].tensor();
    }
    return true;
  }

  std::vector<NodeId> failures(std::span<const ValueId> wanted) override {
    const Plan plan = plan_of({.read = {wanted.begin(), wanted.end()}});
    FailingNodes found;
    RunOptions options = run_options();
    options.watch = [&](const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
      if (std::ranges::none_of(outputs, has_non_finite_element)) return;
      found.saw({static_cast<std::int32_t>(&node - plan.graph.nodes().data())}, node, among(inputs), among(outputs));
    };
    run_graph(plan.graph, options);
    return found.take();
  }

  std::shared_ptr<const State> state() const override {
    auto kept = std::make_shared<Kept>();
    kept->weights = weights_;
    kept->memory = memory_;
    kept->step = step_;
    return kept;
  }
  void go_back(const State& state) override {
    const auto& kept = static_cast<const Kept&>(state);
    weights_ = kept.weights;
    memory_ = kept.memory;
    step_ = kept.step;
  }

 private:
  struct Kept final : State {
    std::vector<Tensor> weights = {};
    std::vector<Memory> memory = {};
    std::int64_t step = 0;
  };

  static FailingNodes::Among among(std::span<const Datum> data) {
    FailingNodes::Among found;
    for (const Datum& datum : data) {
      const Tensor* tensor = datum.tensor();
      if (tensor == nullptr) {
        found.nan |= has_non_finite_element(datum);  // of a sequence
        continue;
      }
      if (!is_float(tensor->dtype())) continue;
      for (const double x : elements<double>(*tensor)) {
        found.nan |= std::isnan(x);
        found.infinite |= std::isinf(x);
      }
    }
    return found;
  }

  ValueId find(std::string_view name) const {
    const auto values = program_.graph->values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].body == Graph::kMain && values[i].name == name) return {static_cast<std::int32_t>(i)};
    }
    throw Error("the model has no value named '" + std::string(name) + "'");
  }

  Plan plan_of(const Pass& pass) const {
    GraphWriter writer(*program_.graph, program_.types);
    Plan plan = {.values = pass.read.size()};
    std::vector<ValueId> outputs = pass.read;
    if (pass.derived.valid()) {
      const GradientResult gradient = add_gradient(writer, pass.derived, pass.by);
      if (!gradient.stops.empty()) {
        const GradientStop& stop = gradient.stops.front();
        throw Unsupported(describe(writer.graph(), writer.graph().node(stop.node)) + ": " + stop.reason);
      }
      for (const ValueId id : gradient.of) {
        plan.derived.push_back(id.valid());
        if (id.valid()) outputs.push_back(id);
      }
    }
    writer.set_outputs(std::move(outputs));
    writer.builder().drop_unneeded();
    plan.graph = std::move(std::move(writer).finish().graph);
    return plan;
  }

  RunOptions run_options() const { return {.seed = seed_, .flush_subnormals = program_.flush_subnormals}; }

  // Weights are inputs or initializers of the graph, and either can be given by id.
  std::vector<Datum> run_graph(const Graph& graph, RunOptions options) const {
    Inputs inputs;
    std::unordered_map<ValueId, Datum> others;
    const auto give = [&](ValueId id, const Tensor& tensor) {
      const std::vector<ValueId>& known = graph.main().inputs;
      if (std::ranges::find(known, id) != known.end()) inputs[graph.value(id).name] = tensor;
      else others[id] = tensor;
    };
    for (const auto& [id, tensor] : fed_) give(id, tensor);
    for (std::size_t i = 0; i < weights_.size(); ++i) give(program_.weights[i].id, weights_[i]);
    options.weights = &others;
    return run_reference(graph, inputs, options);
  }
  std::vector<Datum> outputs_of(const Graph& graph) const { return run_graph(graph, run_options()); }

  PassResult run_plan(const Plan& plan, const Pass& pass) const {
    const std::vector<Datum> outputs = outputs_of(plan.graph);
    PassResult result;
    for (std::size_t i = 0; i < plan.values; ++i) result.values.push_back(*outputs[i].tensor());
    std::size_t at = plan.values;
    for (std::size_t i = 0; i < pass.by.size() && i < plan.derived.size(); ++i) {
      if (plan.derived[i]) result.gradients.push_back(*outputs[at++].tensor());
      else result.gradients.emplace_back(program_.types[pass.by[i]].dtype, *program_.types[pass.by[i]].dims());
    }
    return result;
  }

  template <class T>
  Tensor stepped(const Tensor& weight, const Tensor& slope, OptimiserState<T>& state) const {
    std::vector<T> numbers = elements<T>(weight);
    const std::vector<T> slopes = elements<T>(slope);
    optimiser_step<T>(program_.optimiser, step_, numbers, slopes, state);
    return from_elements<T>(weight.dtype(), weight.dims(), numbers);
  }

  void update(std::size_t i, const Tensor& slope) {
    Tensor& weight = weights_[i];
    weight = weight.dtype() == DType::float64 ? stepped<double>(weight, slope, memory_[i].wide)
                                              : stepped<float>(weight, slope, memory_[i].narrow);
  }

  const Program& program_;
  std::vector<Phase> phases_;
  std::vector<Pass> phase_passes_, passes_;
  std::vector<Plan> phase_plans_, plans_;
  Plan update_plan_;
  bool has_updates_ = false;
  std::vector<Tensor> weights_;
  std::vector<Memory> memory_;
  std::unordered_map<ValueId, Tensor> fed_;
  std::uint64_t seed_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

std::vector<Phase> phases_of(const Program& program) {
  std::vector<std::string> names;
  std::vector<Phase> phases;
  for (std::size_t i = 0; i < program.weights.size(); ++i) {
    const ProgramWeight& weight = program.weights[i];
    if (!weight.train || !weight.update.empty()) continue;
    const std::string& loss = weight.loss.empty() ? program.loss : weight.loss;
    const auto found = std::ranges::find(names, loss);
    const auto at = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(loss);
      phases.emplace_back();
      for (std::size_t v = 0; v < program.graph->values().size(); ++v) {
        const Value& value = program.graph->values()[v];
        if (value.body == Graph::kMain && value.name == loss) phases.back().loss = {static_cast<std::int32_t>(v)};
      }
    }
    phases[at].weights.push_back(i);
  }
  return phases;
}

std::unique_ptr<TrainingEngine> make_reference_engine(const Program& program) {
  return std::make_unique<ReferenceEngine>(program);
}

}  // namespace finity
