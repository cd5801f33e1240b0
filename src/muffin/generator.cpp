#include "muffin/generator.h"

#include <algorithm>

#include "muffin/losses.h"
#include "muffin/realise.h"

namespace finity::muffin {

namespace {

// The paper's; of the number of cells the code's.
constexpr int kMostVertices = 30, kMostCells = 3, kMostInCell = 10;

std::string any_of(std::span<const std::string_view> names, Rng& rng) {
  return std::string(names[rng.below(names.size())]);
}

int up_to(int most, Rng& rng) { return 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most))); }

}  // namespace

std::string_view name(Mode mode) {
  constexpr std::string_view kNames[] = {"layers", "muffin", "muffin-code", "muffin-ut"};
  return kNames[static_cast<std::size_t>(mode)];
}

Generator::Generator(GeneratorOptions options) : options_(std::move(options)) {
  if (!options_.data.empty()) data_set(options_.data);
}

const DataSet& Generator::data_for(std::uint64_t index) const {
  if (!options_.data.empty()) return data_set(options_.data);
  std::vector<const DataSet*> turns;
  for (const DataSet& data : data_sets()) {
    if (data.published || (options_.mode == Mode::layers && data.name != "imagenet-full")) turns.push_back(&data);
  }
  return *turns[index % turns.size()];
}

// Any shape that the type takes, one layer, and a loss on its result.
Model Generator::single(Rng& rng) {
  Chooser choose(rng);
  for (;;) {
    std::vector<const LayerKind*> kinds;
    for (const LayerKind& kind : layer_kinds()) {
      if (!kind.merges && kind.name != "embedding") kinds.push_back(&kind);
    }
    Dims dims = {options_.batch};
    double all = 0;
    std::vector<double> upto;
    for (const LayerKind* kind : kinds)
      upto.push_back(all += 1 / (1.0 + static_cast<double>(counts_[std::string(kind->name)])));
    const auto chosen = std::ranges::upper_bound(upto, rng.uniform(0, all)) - upto.begin();
    const LayerKind& kind = *kinds[std::min<std::size_t>(static_cast<std::size_t>(chosen), kinds.size() - 1)];
    const std::int64_t least = std::max(kind.least_rank, 2), most = kind.most_rank == 0 ? 5 : kind.most_rank;
    const std::int64_t rank = choose.between(least, most);
    while (static_cast<std::int64_t>(dims.size()) < rank) dims.push_back(choose.size());
    const DataSet numbers{.name = "table", .sample = {dims.begin() + 1, dims.end()}, .classes = 1, .published = false};
    Assembly assembly(Weights::wide, numbers, draw_samples(numbers, options_.batch, rng), options_.limits);
    if (!assembly.draw(kind, {-1}, choose)) continue;
    ++counts_[std::string(kind.name)];
    covered_.add(cells_of(assembly.layers()[0].spec, {dims}, {""}));
    return std::move(assembly).finish(any_of(loss_names(), rng), any_of(optimiser_names(), rng), true, rng);
  }
}

Model Generator::one(const DataSet& data, Rng& rng) {
  const bool ours = options_.mode == Mode::layers;
  Assembly assembly(ours ? Weights::scaled : Weights::wide, data, draw_samples(data, options_.batch, rng),
                    options_.limits);
  Realisation layers(*this, assembly, rng);
  std::string structure = "cells";
  int at = -1;
  if (options_.mode == Mode::muffin_code) {
    // Three cells over shapes of one rank; the middle one only pools.
    const std::size_t rank = 3 + rng.below(3);
    at = layers.fit_by_dense(-1, layers.random_shape(-1, rank)).value_or(-1);
    for (const bool reduces : {false, true, false}) {
      const std::string axes = std::to_string(rank - 2) + "D", max = "max_pooling" + axes,
                        mean = "average_pooling" + axes;
      at = layers.realise(cell(reduces ? 2 : kMostInCell, rng), at,
                          reduces ? std::vector<std::string_view>{max, mean} : std::vector<std::string_view>{});
      at = layers.fit_by_dense(at, layers.random_shape(at, rank)).value_or(at);
    }
  } else if (rng.below(2) == 0) {
    structure = "chain";
    at = layers.realise(chain_with_skips(up_to(kMostVertices, rng), rng), -1);
  } else {
    const int cells = up_to(kMostCells, rng);
    for (int i = 0; i < cells; ++i) at = layers.realise(cell(up_to(kMostInCell, rng), rng), at);
  }
  layers.end(at);
  const std::string loss = any_of(loss_names(), rng);
  Model model = std::move(assembly).finish(loss, any_of(optimiser_names(), rng), ours, rng);
  model.structure = structure;
  return model;
}

Model Generator::next() {
  Rng rng(options_.seed * 0x9e3779b97f4a7c15 + made_);
  const DataSet& data = data_for(made_++);
  Model model = options_.mode == Mode::muffin_ut ? single(rng) : one(data, rng);
  if (model.structure.empty()) model.structure = "single";
  model.sample.origin = std::string(name(options_.mode)) + " " + model.structure;
  return model;
}

}  // namespace finity::muffin
