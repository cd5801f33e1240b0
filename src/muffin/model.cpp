#include "muffin/model.h"

#include <algorithm>

#include "base/error.h"
#include "fuzz/backward.h"
#include "muffin/losses.h"

namespace finity::muffin {

namespace {
constexpr int kTries = 4;
}  // namespace

Assembly::Assembly(Weights weights, const DataSet& data, Tensor samples, Limits limits)
    : data_(data), samples_(std::move(samples)), limits_(limits), net_(weights) {
  model_.data = data.name;
  model_.draws = weights;
  input_ = net_.input("x", samples_.dtype(), samples_.dims());
}

std::optional<int> Assembly::add(const LayerSpec& spec, const std::vector<int>& from, bool fits) {
  // Indices have no arithmetic: only an embedding takes them.
  const bool words = std::ranges::any_of(from, [&](int layer) { return layer < 0 && data_.words; });
  if (words != (spec.kind == "embedding")) return std::nullopt;
  const std::optional<LayerSize> size = size_of_layer(spec, dims(from));
  if (!size || size->most_elements > limits_.elements || size->weights > limits_.weights ||
      size->nodes > limits_.nodes || element_count(size->dims) == 0 || size->dims.size() > 5 ||
      net_.writer().graph().nodes().size() + size->nodes > limits_.all_nodes)
    return std::nullopt;
  std::vector<ValueId> operands;
  for (const int layer : from) operands.push_back(value(layer));
  values_.push_back(build_layer(net_, spec, operands));
  model_.layers.push_back({.spec = spec,
                           .from = from,
                           .output = net_.writer().graph().value(values_.back()).name,
                           .dims = size->dims,
                           .fits = fits});
  return last();
}

std::optional<int> Assembly::draw(const LayerKind& kind, const std::vector<int>& from, Chooser& choose) {
  for (int i = 0; i < kTries; ++i) {
    const std::optional<LayerSpec> spec = draw_layer(kind, dims(from), choose);
    if (!spec) return std::nullopt;
    if (const std::optional<int> made = add(*spec, from)) return made;
  }
  return std::nullopt;
}

Dims Assembly::dims(int layer) const {
  return layer < 0 ? samples_.dims() : model_.layers[static_cast<std::size_t>(layer)].dims;
}

std::vector<Dims> Assembly::dims(const std::vector<int>& layers) const {
  std::vector<Dims> all;
  for (const int layer : layers) all.push_back(dims(layer));
  return all;
}

void Assembly::leave_out_unused() {
  std::vector<Layer>& layers = model_.layers;
  std::vector<bool> used(layers.size(), false);
  used.back() = true;
  for (std::size_t i = layers.size(); i-- > 0;) {
    for (const int from : layers[i].from) {
      if (used[i] && from >= 0) used[static_cast<std::size_t>(from)] = true;
    }
  }
  std::vector<int> now(layers.size(), -1);
  std::vector<Layer> kept;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!used[i]) continue;
    now[i] = static_cast<int>(kept.size());
    for (int& from : layers[i].from) from = from < 0 ? from : now[static_cast<std::size_t>(from)];
    kept.push_back(std::move(layers[i]));
  }
  layers = std::move(kept);
}

Model Assembly::finish(std::string loss, std::string optimiser, bool safe_targets, Rng& rng) && {
  if (model_.layers.empty()) throw Error("a model has no layer");
  const Tensor target = draw_target(loss, model_.layers.back().dims, safe_targets, rng);
  const ValueId wanted = net_.input("target", DType::float32, target.dims());
  const ValueId value = add_loss(net_, loss, values_.back(), wanted);
  for (const ValueId weight : net_.weights()) model_.weights.push_back(net_.writer().graph().value(weight).name);
  model_.loss_value = net_.writer().graph().value(value).name;
  model_.loss = std::move(loss);
  model_.optimiser = std::move(optimiser);
  net_.writer().add_output(values_.back());
  net_.writer().add_output(value);
  const Graph graph = std::move(net_.writer()).finish().graph;
  model_.sample = fuzz::sample_of(graph, {{"x", samples_}, {"target", target}});
  leave_out_unused();
  fuzz::drop_unneeded(model_.sample);
  std::erase_if(model_.weights, [&](const std::string& name) { return !model_.sample.constants.contains(name); });
  return std::move(model_);
}

std::optional<Model> rebuilt(const Model& model, const std::vector<Layer>& layers, Limits limits) {
  const Tensor& samples = model.sample.inputs.at("x");
  const DataSet data{.name = model.data,
                     .sample = {samples.dims().begin() + 1, samples.dims().end()},
                     .words = samples.dtype() == DType::int64};
  Assembly assembly(model.draws, data, samples, limits);
  for (const Layer& layer : layers) {
    if (!assembly.add(layer.spec, layer.from, layer.fits)) return std::nullopt;
  }
  if (layers.empty() || assembly.dims(assembly.last()) != model.layers.back().dims) return std::nullopt;
  Rng rng(1);
  Model result = std::move(assembly).finish(model.loss, model.optimiser, false, rng);
  result.sample.inputs["target"] = model.sample.inputs.at("target");
  result.sample.origin = model.sample.origin;
  result.structure = model.structure;
  return result;
}

namespace {

// Whether there was something to unroll.
bool unroll(LayerSpec& spec) {
  bool changed = false;
  if ((spec.kind == "LSTM" || spec.kind == "GRU" || spec.kind == "simpleRNN") && !spec.flag("unroll")) {
    spec.set("unroll", 1);
    changed = true;
  }
  if (spec.inner) {
    LayerSpec inner = *spec.inner;
    changed |= unroll(inner);
    spec.inner = std::make_shared<const LayerSpec>(std::move(inner));
  }
  return changed;
}

}  // namespace

std::optional<Model> unrolled(const Model& model) {
  std::vector<Layer> layers = model.layers;
  bool changed = false;
  for (Layer& layer : layers) changed |= unroll(layer.spec);
  if (!changed) return std::nullopt;
  return rebuilt(model, layers, {.nodes = 600, .all_nodes = 4000});
}

}  // namespace finity::muffin
