#include <algorithm>
#include <cmath>
#include <span>

#include "base/time_limit.h"
#include "tensor/convert.h"
#include "trigger/runner.h"

namespace finity {

namespace {

class Shrinker {
 public:
  Shrinker(Runner& runner, const FailingRun& witness, std::size_t most_runs,
           const std::function<bool(const Drawn&)>& keeps)
      : runner_(runner), best_(witness), left_(most_runs), keeps_(keeps), rng_(runner.seed()) {
    const CheckedGraph& model = runner.model();
    for (const ValueId id : model.graph.main().inputs) {
      const auto given = witness.drawn->inputs.find(model.graph.value(id).name);
      if (given != witness.drawn->inputs.end()) remember(id, given->second.tensor());
    }
    for (const auto& [id, datum] : witness.drawn->weights) remember(id, datum.tensor());
  }

  FailingRun run() {
    simplify_all();
    for (const auto& [id, values] : Numbers(now_)) zero_chunks(id, values.size());
    for (const auto& [id, values] : Numbers(now_)) round_elements(id);
    return best_;
  }

 private:
  void remember(ValueId id, const Tensor* tensor) {
    if (tensor != nullptr && tensor->dtype() != DType::string && !is_complex(tensor->dtype())) {
      now_[id] = elements<double>(*tensor);
    }
  }

  // What must be equal can only change together.
  void simplify_all() {
    for (const double number : {0.0, 1.0}) {
      Numbers wished = now_;
      for (auto& [id, values] : wished) values.assign(values.size(), number);
      if (wished == now_ || accept(std::move(wished))) return;
    }
  }

  bool accept(ValueId id, std::vector<double> values) {
    Numbers wished = now_;
    wished[id] = std::move(values);
    return accept(std::move(wished));
  }

  // Keeps the change if the finding still comes true.
  bool accept(Numbers wished) {
    if (left_ == 0) return false;
    --left_;
    const CheckedGraph& model = runner_.model();
    const Drawn drawn = fit_inside(model.graph, model.types, runner_.space(), *best_.drawn, wished, rng_);
    std::optional<FailingRun> still = runner_.run_for(drawn, best_.finding);
    if (!still || !keeps_(drawn) || (still->outputs.empty() && !best_.outputs.empty())) return false;
    now_ = std::move(wished);
    best_ = std::move(*still);
    return true;
  }

  // Halves, quarters, ... set to zero, down to single elements.
  void zero_chunks(ValueId id, std::size_t size) {
    for (std::size_t chunk = size; chunk > 0 && left_ > 0; chunk /= 2) {
      for (std::size_t from = 0; from < size && left_ > 0; from += chunk) {
        // Looked at before it is copied: there may be a million chunks, nearly all of them zero already.
        const auto part = std::span(now_[id]).subspan(from, std::min(chunk, size - from));
        if (std::ranges::all_of(part, [](double x) { return x == 0; })) continue;
        std::vector<double> values = now_[id];
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(from), part.size(), 0.0);
        accept(id, std::move(values));
      }
    }
  }

  static double rounded(double x, int digits) {
    if (x == 0 || !std::isfinite(x)) return x;
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - digits + 1);
    return std::round(x / unit) * unit;
  }

  // All elements at once with few digits; else those that differ from zero one by one.
  void round_elements(ValueId id) {
    for (int digits = 1; digits <= 4; ++digits) {
      std::vector<double> values = now_[id];
      for (double& x : values) x = rounded(x, digits);
      if (values == now_[id] || accept(id, std::move(values))) return;
    }
    for (std::size_t i = 0; i < now_[id].size() && left_ > 0; ++i) {
      for (int digits = 1; digits <= 3; ++digits) {
        const double wanted = rounded(now_[id][i], digits);
        if (wanted == now_[id][i]) break;
        std::vector<double> values = now_[id];
        values[i] = wanted;
        if (accept(id, std::move(values))) break;
      }
    }
  }

  Runner& runner_;
  FailingRun best_;
  std::size_t left_;
  const std::function<bool(const Drawn&)>& keeps_;
  Rng rng_;
  Numbers now_;
};

}  // namespace

FailingRun shrink(Runner& runner, const FailingRun& witness, std::size_t most_runs,
                  const std::function<bool(const Drawn&)>& keeps) {
  try {
    return Shrinker(runner, witness, most_runs, keeps).run();
  } catch (const TimeUp&) {
    return witness;
  }
}

}  // namespace finity
