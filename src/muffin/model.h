// A model as Muffin sees it: layers with their operands, and the nodes they come to, with a loss at the end. Models are
// put together layer by layer; a layer that would be too large is refused before anything is added.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/sample.h"
#include "muffin/data.h"
#include "muffin/layers.h"

namespace finity::muffin {

// What one model may come to. Libraries are compared, not loaded.
struct Limits {
  std::int64_t elements = 60'000;  // of one tensor
  std::int64_t weights = 250'000;  // of one layer
  std::size_t nodes = 160;         // of one layer
  std::size_t all_nodes = 1500;
};

struct Layer {
  LayerSpec spec = {};
  std::vector<int> from = {};  // layers before it; -1: the data
  std::string output = {};     // name of the value
  Dims dims = {};
  bool fits = false;  // added to make shapes fit
};

struct Model {
  Weights draws = Weights::wide;
  std::string data = {};       // "mnist"
  std::string structure = {};  // "chain", "cells", ...
  std::string loss = {}, optimiser = {};
  std::vector<Layer> layers = {};
  fuzz::Sample sample = {};  // inputs "x" and "target"; outputs are the last layer's and the loss
  std::string loss_value = {};
  std::vector<std::string> weights = {};

  const std::string& output() const { return layers.back().output; }
};

class Assembly {
 public:
  Assembly(Weights weights, const DataSet& data, Tensor samples, Limits limits = {});

  // The number of the layer; nothing when it does not fit or is too large.
  std::optional<int> add(const LayerSpec& spec, const std::vector<int>& from, bool fits = false);
  // The same with parameters drawn, in some tries.
  std::optional<int> draw(const LayerKind& kind, const std::vector<int>& from, Chooser& choose);
  Dims dims(int layer) const;
  std::vector<Dims> dims(const std::vector<int>& layers) const;
  const DataSet& data() const { return data_; }
  const std::vector<Layer>& layers() const { return model_.layers; }
  const Limits& limits() const { return limits_; }
  int last() const { return static_cast<int>(model_.layers.size()) - 1; }

  // Ends with a loss on the last layer. Layers that do not lead there are left out.
  Model finish(std::string loss, std::string optimiser, bool safe_targets, Rng& rng) &&;

 private:
  void leave_out_unused();
  ValueId value(int layer) const { return layer < 0 ? input_ : values_[static_cast<std::size_t>(layer)]; }

  const DataSet& data_;
  Tensor samples_;
  Limits limits_;
  Net net_;
  ValueId input_ = {};
  std::vector<ValueId> values_;
  Model model_;
};

// The model of these layers with another choice of parameters or layers: what mutations do. Nothing when it cannot be
// built.
std::optional<Model> rebuilt(const Model& model, const std::vector<Layer>& layers, Limits limits = {});

// The same model with recurrent layers written step by step, for libraries and backward passes that have no ops for
// them: layers and weights are in the same order. Nothing when there are none, or sequences are too long.
std::optional<Model> unrolled(const Model& model);

}  // namespace finity::muffin
