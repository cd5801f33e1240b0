#include "torch/training.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "program/failing_nodes.h"
#include "program/optimiser.h"
#include "torch/program.h"

namespace finity {

namespace {

// Numbers below the normal ones are zeros while this lives.
class Flushing {
 public:
  explicit Flushing(bool wanted) { at::globalContext().setFlushDenormal(wanted); }
  ~Flushing() { at::globalContext().setFlushDenormal(false); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;
};

// float16 and bfloat16 weights are updated in float32 and rounded.
struct Memory {
  OptimiserState<float> narrow = {};
  OptimiserState<double> wide = {};
};

class TorchTraining final : public TrainingEngine {
 public:
  explicit TorchTraining(const Program& program)
      : program_(program),
        flushing_(program.flush_subnormals),
        torch_(program.graph),
        run_(torch_.graph()),
        phases_(phases_of(program)),
        memory_(program.weights.size()) {
    for (const Phase& phase : phases_) phase_plans_.push_back(torch_.plan({{phase.loss}}));
    for (const ProgramWeight& weight : program.weights) {
      if (!weight.update.empty()) updates_.push_back(torch_.find(weight.update));
    }
    if (!updates_.empty()) update_plan_ = torch_.plan(updates_);
  }

  std::string name() const override { return "libtorch"; }

  std::size_t add_pass(Pass pass) override {
    std::vector<ValueId> wanted = pass.read;
    if (pass.derived.valid()) wanted.push_back(pass.derived);
    plans_.push_back(torch_.plan(wanted));
    passes_.push_back(std::move(pass));
    return passes_.size() - 1;
  }

  void start(std::span<const Tensor> weights) override {
    for (std::size_t i = 0; i < weights.size(); ++i) set_weight(i, weights[i]);
    memory_.assign(weights.size(), {});
    step_ = 0;
  }

  Tensor weight(std::size_t i) const override {
    const TorchValue& value = run_.at(program_.weights[i].id);
    return to_host(value.tensor.detach(), value.dtype);
  }

  void set_weight(std::size_t i, const Tensor& weight) override {
    run_.set(program_.weights[i].id, to_value(Datum(weight)));
  }

  void feed(ValueId input, const Tensor& tensor) override { run_.set(input, to_value(Datum(tensor))); }

  void set_seed(std::uint64_t seed) override { run_.rng = Rng(seed); }

  PassResult run(std::size_t number) override {
    const Pass& pass = passes_[number];
    PassResult result;
    want_slopes(pass.by);
    {
      const std::optional<at::NoGradGuard> forward_only = guard_unless(pass.derived.valid());
      torch_.run(plans_[number], run_);
    }
    for (const ValueId id : pass.read) {
      const TorchValue& value = run_.at(id);
      result.values.push_back(to_host(value.tensor.detach(), value.dtype));
    }
    if (!pass.derived.valid()) return result;
    for (const TorchValue& slope : gradients(run_, pass.derived, pass.by)) {
      result.gradients.push_back(to_host(slope.tensor, slope.dtype));
    }
    return result;
  }

  bool train() override {
    const std::shared_ptr<const State> before = phases_.size() > 1 ? state() : nullptr;
    ++step_;
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      std::vector<ValueId> ids;
      for (const std::size_t weight : phases_[i].weights) ids.push_back(program_.weights[weight].id);
      want_slopes(ids);
      torch_.run(phase_plans_[i], run_);
      std::vector<TorchValue> slopes;
      bool finite = std::isfinite(run_.at(phases_[i].loss).tensor.item<double>());
      if (finite) slopes = gradients(run_, phases_[i].loss, ids);
      for (const TorchValue& slope : slopes) finite = finite && is_finite(slope.tensor);
      if (!finite) {
        if (before != nullptr) go_back(*before);
        else --step_;
        return false;
      }
      for (std::size_t k = 0; k < ids.size(); ++k) update(phases_[i].weights[k], slopes[k].tensor);
    }
    apply_updates();
    return true;
  }

  std::vector<NodeId> failures(std::span<const ValueId> wanted) override {
    FailingNodes found;
    want_slopes({});
    const at::NoGradGuard forward_only;
    run_.watch = [&](const Node& node, std::span<const TorchValue> inputs, std::span<const TorchValue> outputs) {
      if (!std::ranges::any_of(outputs, is_bad)) return;
      found.saw({static_cast<std::int32_t>(&node - torch_.graph().nodes().data())}, node, among(inputs),
                among(outputs));
    };
    try {
      torch_.run(torch_.plan(wanted), run_);
    } catch (...) {
      run_.watch = {};
      throw;
    }
    run_.watch = {};
    return found.take();
  }

  std::shared_ptr<const State> state() const override {
    auto kept = std::make_shared<Kept>();
    for (std::size_t i = 0; i < program_.weights.size(); ++i) {
      kept->weights.push_back(run_.at(program_.weights[i].id).tensor.detach().clone());
    }
    kept->memory = memory_;
    kept->step = step_;
    return kept;
  }

  void go_back(const State& state) override {
    const auto& kept = static_cast<const Kept&>(state);
    for (std::size_t i = 0; i < program_.weights.size(); ++i) {
      TorchValue value = run_.at(program_.weights[i].id);
      value.tensor = kept.weights[i].clone();
      run_.set(program_.weights[i].id, std::move(value));
    }
    memory_ = kept.memory;
    step_ = kept.step;
  }

 private:
  struct Kept final : State {
    std::vector<at::Tensor> weights = {};
    std::vector<Memory> memory = {};
    std::int64_t step = 0;
  };

  // A sum is quick, and finite only of what is; that of large numbers may overflow.
  static bool is_finite(const at::Tensor& tensor) {
    const at::NoGradGuard forward_only;
    return std::isfinite(tensor.sum().item<double>()) || at::isfinite(tensor).all().item<bool>();
  }

  static bool is_bad(const TorchValue& value) {
    if (!value.tensor.defined() || !at::isFloatingType(value.tensor.scalar_type())) return false;
    return !at::isfinite(value.tensor).all().item<bool>();
  }

  static FailingNodes::Among among(std::span<const TorchValue> values) {
    FailingNodes::Among found;
    for (const TorchValue& value : values) {
      if (!is_bad(value)) continue;
      found.nan |= at::isnan(value.tensor).any().item<bool>();
      found.infinite |= at::isinf(value.tensor).any().item<bool>();
    }
    return found;
  }

  static std::optional<at::NoGradGuard> guard_unless(bool derives) {
    return derives ? std::nullopt : std::optional<at::NoGradGuard>(std::in_place);
  }

  // Just these are leaves of the derivatives.
  void want_slopes(std::span<const ValueId> ids) {
    const auto set = [&](ValueId id) {
      TorchValue& value = run_.values[id.at()];
      if (!value.tensor.defined() || !at::isFloatingType(value.tensor.scalar_type())) return;
      const bool wanted = std::ranges::find(ids, id) != ids.end();
      if (value.tensor.requires_grad() == wanted) return;
      value.tensor = value.tensor.detach();
      value.tensor.set_requires_grad(wanted);
    };
    for (const ProgramInput& input : program_.inputs) set(input.id);
    for (const ProgramWeight& weight : program_.weights) set(weight.id);
  }

  template <class T>
  void step(std::size_t i, at::Tensor& tensor, const at::Tensor& slope, OptimiserState<T>& state) {
    const auto size = static_cast<std::size_t>(tensor.numel());
    optimiser_step<T>(program_.optimiser, step_, {tensor.data_ptr<T>(), size}, {slope.contiguous().data_ptr<T>(), size},
                      state);
    TorchValue value = run_.at(program_.weights[i].id);
    value.tensor = tensor;
    run_.set(program_.weights[i].id, std::move(value));
  }

  void update(std::size_t i, const at::Tensor& slope) {
    at::Tensor tensor = run_.at(program_.weights[i].id).tensor.detach();
    if (tensor.scalar_type() == at::kDouble) {
      tensor = tensor.contiguous();
      step<double>(i, tensor, slope, memory_[i].wide);
      return;
    }
    const at::ScalarType own = tensor.scalar_type();
    tensor = tensor.to(at::kFloat).contiguous();
    step<float>(i, tensor, slope.to(at::kFloat), memory_[i].narrow);
    if (own != at::kFloat) run_.values[program_.weights[i].id.at()].tensor = tensor.to(own);
  }

  // Computed from what the phases left, all before any is applied.
  void apply_updates() {
    if (updates_.empty()) return;
    want_slopes({});
    const at::NoGradGuard forward_only;
    torch_.run(update_plan_, run_);
    std::vector<TorchValue> next;
    for (const ValueId id : updates_) next.push_back(run_.at(id));
    std::size_t k = 0;
    for (const ProgramWeight& weight : program_.weights) {
      if (weight.update.empty()) continue;
      next[k].tensor = next[k].tensor.detach().clone();
      run_.set(weight.id, std::move(next[k++]));
    }
  }

  const Program& program_;
  Flushing flushing_;
  TorchProgram torch_;
  TorchRun run_;
  std::vector<Phase> phases_;
  std::vector<std::vector<NodeId>> phase_plans_;
  std::vector<ValueId> updates_;
  std::vector<NodeId> update_plan_;
  std::vector<Pass> passes_;
  std::vector<std::vector<NodeId>> plans_;
  std::vector<Memory> memory_;
  std::int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<TrainingEngine> make_torch_training(const Program& program) {
  return std::make_unique<TorchTraining>(program);
}

}  // namespace finity
