#include "muffin/realise.h"

#include <algorithm>

namespace finity::muffin {

namespace {

constexpr int kTypesTried = 12;

// Layers after which Muffin's code puts activations.
constexpr std::string_view kActivated[] = {"dense",
                                           "conv1D",
                                           "conv2D",
                                           "conv3D",
                                           "separable_conv1D",
                                           "separable_conv2D",
                                           "depthwise_conv2D",
                                           "conv2D_transpose",
                                           "conv3D_transpose",
                                           "time_distributed",
                                           "bidirectional",
                                           "LSTM",
                                           "GRU",
                                           "simpleRNN",
                                           "convLSTM2D"};
constexpr std::string_view kActivations[] = {"activation",       "ReLU",  "leakyReLU", "ELU",
                                             "thresholded_ReLU", "PReLU", "softmax"};

template <std::size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

LayerSpec spec_of(std::string kind, std::uint64_t seed) { return {.kind = std::move(kind), .seed = seed}; }

}  // namespace

std::vector<std::string> Realisation::makers(const std::vector<int>& from) const {
  std::vector<std::string> kinds;
  for (const int layer : from)
    kinds.push_back(layer < 0 ? "" : assembly_.layers()[static_cast<std::size_t>(layer)].spec.kind);
  return kinds;
}

const LayerKind* Realisation::fittest(const std::vector<const LayerKind*>& candidates) {
  double all = 0;
  std::vector<double> upto;
  for (const LayerKind* kind : candidates) {
    const auto found = generator_.counts_.find(kind->name);
    all += 1 / (1.0 + static_cast<double>(found == generator_.counts_.end() ? 0 : found->second));
    upto.push_back(all);
  }
  if (candidates.empty()) return nullptr;
  const double at = rng_.uniform(0, all);
  const auto found = std::ranges::upper_bound(upto, at);
  return candidates[std::min<std::size_t>(static_cast<std::size_t>(found - upto.begin()), candidates.size() - 1)];
}

// The released code's rules. As published, shapes are made to fit instead.
bool Realisation::legal(const LayerKind& kind, int before) const {
  if (assembly_.data().words && before < 0) return kind.name == "embedding";
  if (kind.name == "embedding") return false;
  if (mode() != Mode::muffin_code) return true;
  if (!kind.takes_rank(assembly_.dims(before).size())) return false;
  const std::string maker = makers({before})[0];
  return !among(kActivations, kind.name) || among(kActivated, maker);
}

std::optional<int> Realisation::add(LayerSpec spec, int from) { return assembly_.add(spec, {from}, true); }

std::optional<int> Realisation::most_novel(const LayerKind& kind, const std::vector<int>& from) {
  constexpr int kDraws = 4;
  const std::vector<Dims> dims = assembly_.dims(from);
  std::optional<LayerSpec> best;
  double most = -1;
  // One draw in five is the first that comes: a control group.
  const int draws = rng_.below(5) == 0 ? 1 : kDraws;
  for (int i = 0; i < draws; ++i) {
    const std::optional<LayerSpec> spec = draw_layer(kind, dims, choose_);
    if (!spec) break;
    double novelty = 0;
    for (const CoverCell& cell : cells_of(*spec, dims, makers(from)))
      novelty += generator_.covered_.hits(cell) == 0 ? 1 : 0;
    if (novelty > most) {
      most = novelty;
      best = spec;
    }
  }
  if (best) {
    if (const std::optional<int> made = assembly_.add(*best, from)) return made;
  }
  return assembly_.draw(kind, from, choose_);
}

std::optional<int> Realisation::place(const LayerKind& kind, const std::vector<int>& from) {
  const std::optional<int> made = ours() ? most_novel(kind, from) : assembly_.draw(kind, from, choose_);
  if (!made) return std::nullopt;
  generator_.counts_[std::string(kind.name)] += mode() == Mode::muffin_code ? generator_.options_.libraries - 1 : 1;
  const LayerSpec& spec = assembly_.layers().back().spec;
  generator_.covered_.add(cells_of(spec, assembly_.dims(from), makers(from)));
  return made;
}

Dims Realisation::random_shape(int layer, std::size_t rank) {
  const Dims dims = assembly_.dims(layer);
  const std::int64_t given = element_count(dims) / dims[0], most = assembly_.limits().weights / given;
  Dims shape = {dims[0]};
  for (std::size_t i = 1; i < rank; ++i) shape.push_back(choose_.size());
  for (std::size_t i = 1; i < rank && element_count(shape) / dims[0] > most; ++i) shape[i] = 2;
  for (std::size_t i = 1; i < rank && element_count(shape) / dims[0] > most; ++i) shape[i] = 1;
  return shape;
}

std::optional<int> Realisation::fit_by_dense(int layer, const Dims& target) {
  std::optional<int> at = layer;
  if (assembly_.dims(layer).size() > 2) {
    LayerSpec flatten = spec_of("flatten", rng_.bits());
    flatten.set("data_format", "none");
    at = add(flatten, layer);
  }
  LayerSpec dense = spec_of("dense", rng_.bits());
  dense.set("units", element_count(target) / target[0]);
  dense.set("use_bias", 1);
  if (at) at = add(dense, *at);
  if (!at || target.size() == 2) return at;
  LayerSpec reshape = spec_of("reshape", 0);
  reshape.set("target_shape", Ints(target.begin() + 1, target.end()));
  return add(reshape, *at);
}

// Along the axes in which shapes differ: cropped, padded, or made of weighted sums along the last.
std::optional<int> Realisation::fit_axis(int layer, const Dims& target) {
  const Dims dims = assembly_.dims(layer);
  const std::size_t rank = dims.size();
  if (rank < 3 || rank > 5) return std::nullopt;
  const std::string axes = std::to_string(rank - 2) + "D";
  Ints begin(rank - 2, 0), end(rank - 2, 0), more(rank - 2, 0), none(rank - 2, 0);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const std::int64_t extra = dims[i + 1] - target[i + 1];
    begin[i] = extra > 0 ? choose_.between(0, extra) : 0;
    end[i] = extra > 0 ? extra - begin[i] : 0;
    more[i] = std::max<std::int64_t>(-extra, 0);
  }
  std::optional<int> at = layer;
  if (begin != none || end != none) {
    LayerSpec crop = spec_of("cropping" + axes, 0);
    crop.set("data_format", "channels_last");
    crop.set("begin", begin);
    crop.set("end", end);
    at = add(crop, *at);
  }
  if (at && more != none) {
    LayerSpec pad = spec_of("zero_padding" + axes, 0);
    pad.set("data_format", "channels_last");
    pad.set("begin", none);
    pad.set("end", more);
    at = add(pad, *at);
  }
  if (!at || dims.back() == target.back()) return at;
  LayerSpec dense = spec_of("dense", rng_.bits());
  dense.set("units", target.back());
  dense.set("use_bias", std::int64_t{choose_.coin()});
  return add(dense, *at);
}

std::optional<int> Realisation::fitted(int layer, const Dims& target) {
  const Dims dims = assembly_.dims(layer);
  if (!ours()) return fit_by_dense(layer, target);
  if (dims == target) return layer;
  if (element_count(dims) == element_count(target)) {
    LayerSpec reshape = spec_of("reshape", 0);
    reshape.set("target_shape", Ints(target.begin() + 1, target.end()));
    return add(reshape, layer);
  }
  if (dims.size() == target.size() && rng_.below(10) < 8) {
    if (const std::optional<int> made = fit_axis(layer, target)) return made;
  }
  if (dims.size() == 2 && target.size() == 3 && dims[1] == target[2]) {
    LayerSpec repeat = spec_of("repeat_vector", 0);
    repeat.set("n", target[1]);
    return add(repeat, layer);
  }
  return fit_by_dense(layer, target);
}

// Ours: axes of size one come and go, or sizes are multiplied; otherwise by dense layers.
std::optional<int> Realisation::with_rank(int layer, const LayerKind& kind) {
  const Dims dims = assembly_.dims(layer);
  std::size_t rank = static_cast<std::size_t>(std::max(kind.least_rank, 2));
  if (kind.most_rank > kind.least_rank && choose_.coin()) rank = static_cast<std::size_t>(kind.most_rank);
  if (!ours() || rng_.below(10) < 3) return fit_by_dense(layer, random_shape(layer, rank));
  Ints target(dims.begin() + 1, dims.end());
  while (target.size() + 1 < rank) {
    // A size is taken apart where it can be.
    const std::size_t at = rng_.below(target.size());
    std::int64_t part = 1;
    for (const std::int64_t divisor : {4, 3, 2}) {
      if (target[at] % divisor == 0 && target[at] > divisor) part = divisor;
    }
    target[at] /= part;
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(at) + (choose_.coin() ? 1 : 0), part);
  }
  while (target.size() + 1 > rank) {
    const std::size_t at = rng_.below(target.size() - 1);
    target[at] *= target[at + 1];
    target.erase(target.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  LayerSpec reshape = spec_of("reshape", 0);
  reshape.set("target_shape", target);
  return add(reshape, layer);
}

std::optional<int> Realisation::single(int before, const std::vector<std::string_view>& pool) {
  std::vector<const LayerKind*> candidates;
  for (const LayerKind& kind : layer_kinds()) {
    const bool wanted = pool.empty() || std::ranges::find(pool, kind.name) != pool.end();
    if (!kind.merges && wanted && legal(kind, before)) candidates.push_back(&kind);
  }
  for (int i = 0; i < kTypesTried && !candidates.empty(); ++i) {
    const LayerKind* kind = fittest(candidates);
    std::optional<int> at = before;
    // What is drawn must fit before shapes are changed for it.
    if (!kind->takes_rank(assembly_.dims(before).size())) at = with_rank(before, *kind);
    if (at) {
      if (const std::optional<int> made = place(*kind, {*at})) return made;
      if (*at != before) return at;  // the vertex is what made shapes fit
    }
    std::erase(candidates, kind);
  }
  return std::nullopt;
}

std::optional<int> Realisation::merging(const std::vector<int>& before) {
  std::vector<const LayerKind*> candidates;
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.merges && (!kind.two_only || before.size() == 2)) candidates.push_back(&kind);
  }
  const LayerKind* kind = fittest(candidates);
  int largest = before.front();
  for (const int layer : before) {
    if (element_count(assembly_.dims(layer)) > element_count(assembly_.dims(largest))) largest = layer;
  }
  // Ours: the shape of one of the operands. Otherwise any.
  Dims target = ours() ? assembly_.dims(before[rng_.below(before.size())]) : random_shape(largest, 2 + rng_.below(4));
  std::vector<int> fit;
  for (const int layer : before) {
    Dims own = target;
    if (kind->name == "concatenate" && !fit.empty() && !ours()) own.back() = choose_.size();
    std::optional<int> made = fitted(layer, own);
    if (!made && ours()) made = fit_by_dense(layer, own);
    if (!made) return std::nullopt;
    fit.push_back(*made);
  }
  return place(*kind, fit);
}

int Realisation::realise(const Structure& structure, int source, const std::vector<std::string_view>& pool) {
  std::vector<int> made;
  const auto layer_of = [&](int vertex) { return vertex < 0 ? source : made[static_cast<std::size_t>(vertex)]; };
  for (const std::vector<int>& edges : structure) {
    std::vector<int> before;
    for (const int vertex : edges) {
      const int layer = layer_of(vertex);
      if (std::ranges::find(before, layer) == before.end()) before.push_back(layer);
    }
    const bool words = assembly_.data().words && std::ranges::find(before, -1) != before.end();
    std::optional<int> layer;
    if (before.size() == 1 || words) layer = single(words ? -1 : before.front(), pool);
    else layer = merging(before);
    // A vertex that cannot be is left out.
    made.push_back(layer ? *layer : before.front());
  }
  return made.empty() ? source : made.back();
}

void Realisation::end(int at) {
  const DataSet& data = assembly_.data();
  const std::int64_t batch = assembly_.dims(at)[0];
  const std::int64_t given = element_count(assembly_.dims(at)) / batch;
  if (given * data.classes > assembly_.limits().weights) {
    const std::int64_t few = std::max<std::int64_t>(assembly_.limits().weights / std::max(given, data.classes), 1);
    at = fit_by_dense(at, {batch, std::min<std::int64_t>(few, 16)}).value_or(at);
  }
  at = fit_by_dense(at, {batch, data.classes}).value_or(at);
  LayerSpec spec = spec_of(data.classes > 1 || mode() == Mode::muffin_code ? "softmax" : "activation", 0);
  if (spec.kind == "softmax") spec.set("axis", -1);
  else spec.set("activation", "sigmoid");
  add(spec, at);
}

}  // namespace finity::muffin
