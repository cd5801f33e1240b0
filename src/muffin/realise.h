// Turns a structure into layers: chooses a type for every vertex, makes shapes fit, and ends the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muffin/generator.h"

namespace finity::muffin {

class Realisation {
 public:
  Realisation(Generator& generator, Assembly& assembly, Rng& rng)
      : generator_(generator), assembly_(assembly), rng_(rng), choose_(rng) {}

  // Layers for all vertices after layer `source` (-1: the data), of `pool` only when it is not empty.
  // Returns the last one.
  int realise(const Structure& structure, int source, const std::vector<std::string_view>& pool = {});
  // Flatten, dense, reshape to this shape, batch included.
  std::optional<int> fit_by_dense(int layer, const Dims& target);
  // A random shape of that rank that dense layers can make of `layer`.
  Dims random_shape(int layer, std::size_t rank);
  // The layers that predict from `at`: a softmax over classes, or a number.
  void end(int at);

 private:
  Mode mode() const { return generator_.options_.mode; }
  bool ours() const { return mode() == Mode::layers; }
  std::optional<int> single(int before, const std::vector<std::string_view>& pool);
  std::optional<int> merging(const std::vector<int>& before);
  // By use: 1 / (times + 1) among the candidates.
  const LayerKind* fittest(const std::vector<const LayerKind*>& candidates);
  std::optional<int> place(const LayerKind& kind, const std::vector<int>& from);
  std::optional<int> most_novel(const LayerKind& kind, const std::vector<int>& from);
  bool legal(const LayerKind& kind, int before) const;
  // `layer` with another rank, or shape.
  std::optional<int> with_rank(int layer, const LayerKind& kind);
  std::optional<int> fitted(int layer, const Dims& target);
  std::optional<int> fit_axis(int layer, const Dims& target);
  std::optional<int> add(LayerSpec spec, int from);
  std::vector<std::string> makers(const std::vector<int>& from) const;

  Generator& generator_;
  Assembly& assembly_;
  Rng& rng_;
  Chooser choose_;
};

}  // namespace finity::muffin
