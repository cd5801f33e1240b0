#include "muffin/lemon.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity::muffin {

namespace {

constexpr std::size_t kPool = 50;

using Layers = std::vector<Layer>;

std::size_t index_of(int layer) { return static_cast<std::size_t>(layer); }

Dims operand_dims(const Model& model, const Layer& layer) {
  return layer.from[0] < 0 ? model.sample.inputs.at("x").dims() : model.layers[index_of(layer.from[0])].dims;
}

// Layers for which the condition holds; one of them, or -1.
template <class Condition>
int any_layer(const Model& model, Rng& rng, Condition holds) {
  std::vector<int> found;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (holds(model.layers[i])) found.push_back(static_cast<int>(i));
  }
  return found.empty() ? -1 : found[rng.below(found.size())];
}

// A layer goes in after layer `at`; whoever used it uses the new one.
Layers with_layer(const Layers& layers, int at, LayerSpec spec) {
  Layers result;
  const auto moved = [&](int from) { return from < at ? from : from + 1; };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer layer = layers[i];
    if (static_cast<int>(i) > at) {
      for (int& from : layer.from) from = moved(from);
    }
    result.push_back(layer);
    if (static_cast<int>(i) == at) result.push_back({.spec = spec, .from = {at}});
  }
  return result;
}

Layers without_layer(const Layers& layers, int at) {
  Layers result;
  const int before = layers[index_of(at)].from[0];
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (static_cast<int>(i) == at) continue;
    Layer layer = layers[i];
    for (int& from : layer.from) from = from == at ? before : from > at ? from - 1 : from;
    result.push_back(std::move(layer));
  }
  return result;
}

bool keeps_shape(const Model& model, const Layer& layer) {
  return layer.from.size() == 1 && operand_dims(model, layer) == layer.dims;
}

// Something that leaves shapes as they are.
LayerSpec plain_layer(const Dims& dims, Rng& rng) {
  Chooser choose(rng);
  for (;;) {
    const char* kind = choose.one_of<const char*>(
        {"activation", "ReLU", "leakyReLU", "ELU", "thresholded_ReLU", "PReLU", "batch_normalization", "dense"});
    std::optional<LayerSpec> spec = draw_layer(layer_kind(kind), {dims}, choose);
    if (!spec) continue;
    if (spec->kind == "dense") spec->set("units", dims.back());
    return *spec;
  }
}

std::optional<Layers> change_weights(const Model& model, const std::string& how, Rng& rng) {
  constexpr std::string_view kWeighted[] = {"dense", "conv2D", "depthwise_conv2D", "separable_conv2D", "LSTM"};
  const int at = any_layer(model, rng, [&](const Layer& layer) {
    return std::ranges::find(kWeighted, layer.spec.kind) != std::end(kWeighted);
  });
  if (at < 0) return std::nullopt;
  Layers layers = model.layers;
  layers[index_of(at)].spec.set("changed_weights", how);
  return layers;
}

std::optional<Layers> change_activation(const Model& model, bool removes, Rng& rng) {
  const int at = any_layer(model, rng, [](const Layer& layer) {
    const std::string act = layer.spec.word("activation");
    return layer.spec.kind == "ReLU" || (!act.empty() && act != "linear" && layer.spec.kind != "LSTM");
  });
  if (at < 0) return std::nullopt;
  LayerSpec spec = model.layers[index_of(at)].spec;
  Layers layers = model.layers;
  if (spec.kind == "ReLU") {
    if (removes) return without_layer(layers, at);
    spec = {.kind = "activation"};
  }
  spec.set("activation", removes ? "linear" : Chooser(rng).activation());
  layers[index_of(at)].spec = spec;
  return layers;
}

// Two layers of the same shapes change places.
std::optional<Layers> switch_layers(const Model& model, Rng& rng) {
  const int one = any_layer(model, rng, [](const Layer& layer) { return layer.from.size() == 1; });
  const Layer& first = model.layers[index_of(one)];
  const int other = any_layer(model, rng, [&](const Layer& layer) {
    return layer.from.size() == 1 && &layer != &first && layer.dims == first.dims &&
           operand_dims(model, layer) == operand_dims(model, first);
  });
  if (other < 0) return std::nullopt;
  Layers layers = model.layers;
  std::swap(layers[index_of(one)].spec, layers[index_of(other)].spec);
  return layers;
}

std::optional<Layers> changed_layers(const Model& model, std::string_view mutator, Rng& rng) {
  const int last = static_cast<int>(model.layers.size()) - 1;
  const int any = static_cast<int>(rng.below(static_cast<std::uint64_t>(std::max(last, 1))));
  if (mutator == "layer addition" || mutator == "multi-layer addition") {
    Layers layers = model.layers;
    const Dims dims = model.layers[index_of(any)].dims;
    for (int i = 0; i < (mutator == "layer addition" ? 1 : 3); ++i)
      layers = with_layer(layers, any + i, plain_layer(dims, rng));
    return layers;
  }
  if (mutator == "layer switch") return switch_layers(model, rng);
  const int same = any_layer(model, rng, [&](const Layer& layer) { return keeps_shape(model, layer); });
  if (same < 0 || (same == last && mutator == "layer removal")) return std::nullopt;
  if (mutator == "layer removal") return without_layer(model.layers, same);
  return with_layer(model.layers, same, model.layers[index_of(same)].spec);  // layer copy
}

// Rounding alone is no success.
constexpr double kFurther = 1e-5;

// Mutators by how often they succeeded: a walk that prefers those of a better rank (Metropolis and Hastings).
class MutatorChoice {
 public:
  std::string_view next(Rng& rng) {
    const std::size_t count = scores_.size();
    const double worse = 1 - 1 / static_cast<double>(count);
    for (;;) {
      const std::size_t other = rng.below(count);
      const int down = rank(other) - rank(current_);
      if (down > 0 && rng.uniform(0, 1) >= std::pow(worse, down)) continue;
      current_ = other;
      return lemon_mutators()[current_];
    }
  }
  void succeeded(std::string_view mutator, bool did) {
    const std::vector<std::string_view> names = lemon_mutators();
    Score& score = scores_[static_cast<std::size_t>(std::ranges::find(names, mutator) - names.begin())];
    ++score.tried;
    score.succeeded += did ? 1 : 0;
  }

 private:
  struct Score {
    int tried = 0, succeeded = 0;
    double rate() const { return tried == 0 ? 0 : static_cast<double>(succeeded) / tried; }
  };
  int rank(std::size_t at) const {
    return static_cast<int>(
        std::ranges::count_if(scores_, [&](const Score& score) { return score.rate() > scores_[at].rate(); }));
  }

  std::vector<Score> scores_ = std::vector<Score>(lemon_mutators().size());
  std::size_t current_ = 0;
};

class Lemon final : public Source {
 public:
  explicit Lemon(const SourceOptions& options) : seed_(options.seed) {}

  Model next() override {
    Rng rng(seed_ * 0x9e3779b97f4a7c15 + made_++);
    if (pool_.empty()) {
      for (const std::string_view name : lemon_seeds()) pool_.push_back({.model = lemon_seed(name, 2, rng)});
    }
    // Nobody said anything of the last one: it is as good as any.
    if (last_) keep(std::move(last_->model), 0);
    last_.reset();
    for (;;) {
      const std::size_t parent = roulette(rng);
      const std::string_view mutator = mutators_.next(rng);
      std::optional<Model> model = mutated(pool_[parent].model, mutator, rng);
      if (!model) continue;
      ++pool_[parent].chosen;
      last_ = {.model = *model, .parent = parent, .mutator = mutator};
      return *model;
    }
  }

  void hear(double distance) override {
    if (!last_) return;
    const bool further = distance > pool_[last_->parent].distance + kFurther;
    mutators_.succeeded(last_->mutator, further);
    if (further) keep(std::move(last_->model), distance);
    last_.reset();
  }

  bool forward_only() const override { return true; }

 private:
  struct Entry {
    Model model = {};
    int chosen = 0;
    double distance = 0;
  };
  struct Last {
    Model model = {};
    std::size_t parent = 0;
    std::string_view mutator = {};
  };

  // In a full pool the one that was used most makes room.
  void keep(Model model, double distance) {
    Entry entry{.model = std::move(model), .distance = distance};
    if (pool_.size() < kPool) pool_.push_back(std::move(entry));
    else *std::ranges::max_element(pool_, {}, &Entry::chosen) = std::move(entry);
  }

  // Those that were chosen less come sooner.
  std::size_t roulette(Rng& rng) const {
    double all = 0;
    for (const Entry& entry : pool_) all += 1.0 / (entry.chosen + 1);
    double at = rng.uniform(0, all);
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      at -= 1.0 / (pool_[i].chosen + 1);
      if (at <= 0) return i;
    }
    return pool_.size() - 1;
  }

  std::uint64_t seed_, made_ = 0;
  std::vector<Entry> pool_;
  MutatorChoice mutators_;
  std::optional<Last> last_;
};

// The mean distance of a library's output from the target; none when it gave no such output.
std::optional<double> from_target(const Model& model, const Trace& trace) {
  const Tensor& target = model.sample.inputs.at("target");
  if (!trace.ran() || trace.outputs.empty() || trace.outputs.back().size() != target.size()) return std::nullopt;
  double sum = 0;
  for (std::int64_t i = 0; i < target.size(); ++i)
    sum += std::abs(element_as_double(trace.outputs.back(), i) - element_as_double(target, i));
  if (!std::isfinite(sum)) return std::nullopt;
  return sum / static_cast<double>(std::max<std::int64_t>(target.size(), 1));
}

}  // namespace

std::vector<std::string_view> lemon_mutators() {
  return {"weight fuzz",   "weight shuffle",     "neuron block",           "neuron inverse",
          "neuron switch", "activation removal", "activation replacement", "layer addition",
          "layer copy",    "layer removal",      "layer switch",           "multi-layer addition"};
}

std::optional<Model> mutated(const Model& model, std::string_view mutator, Rng& rng) {
  std::optional<Layers> layers;
  if (mutator.starts_with("weight ") || mutator.starts_with("neuron "))
    layers = change_weights(model, std::string(mutator.substr(mutator.find(' ') + 1)), rng);
  else if (mutator.starts_with("activation ")) layers = change_activation(model, mutator.ends_with("removal"), rng);
  else layers = changed_layers(model, mutator, rng);
  if (!layers) return std::nullopt;
  return rebuilt(model, *layers);
}

double lemon_distance(const Model& model, const std::vector<Trace>& traces) {
  double most = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    for (std::size_t k = i + 1; k < traces.size(); ++k) {
      const std::optional<double> a = from_target(model, traces[i]), b = from_target(model, traces[k]);
      if (a && b && *a + *b > 0) most = std::max(most, std::abs(*a - *b) / (*a + *b));
    }
  }
  return most;
}

std::unique_ptr<Source> make_lemon(const SourceOptions& options) { return std::make_unique<Lemon>(options); }

}  // namespace finity::muffin
