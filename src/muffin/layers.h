// Muffin's 59 layer types, each once: whether it merges several operands, which ranks it takes, how its parameters are
// drawn for given shapes, and which nodes of the op table it is made of. Where libraries' conventions differ (where
// odd padding goes, what a padded average divides by, the order of a backward sequence) a layer means what Keras says,
// and is written in nodes that mean the same everywhere.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muffin/net.h"
#include "muffin/params.h"

namespace finity::muffin {

// Draws of parameters.
class Chooser {
 public:
  explicit Chooser(Rng& rng) : rng_(rng) {}
  bool coin() { return rng_.below(2) == 1; }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  // A small size, 2 to 5.
  std::int64_t size() { return between(2, 5); }
  double uniform(double low, double high) { return rng_.uniform(low, high); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + rng_.below(values.size()));
  }
  // An activation's name; `plain`: one that the recurrent ops of ONNX have, too.
  std::string activation(bool plain = false);
  Ints permutation(std::size_t count);
  Rng& rng() { return rng_; }

 private:
  Rng& rng_;
};

struct LayerKind {
  std::string_view name;
  // Ranks of operands, batch included; 0: any.
  int least_rank = 0, most_rank = 0;
  // Parameters for operands of these shapes; false when there are none.
  bool (*draw)(Chooser&, const std::vector<Dims>&, LayerSpec&) = nullptr;
  ValueId (*build)(Net&, const LayerSpec&, const std::vector<ValueId>&) = nullptr;
  bool merges = false;      // several operands
  bool two_only = false;    // of which there are two
  bool same_shape = false;  // that have one shape

  bool takes_rank(std::size_t rank) const {
    return (least_rank == 0 || rank >= static_cast<std::size_t>(least_rank)) &&
           (most_rank == 0 || rank <= static_cast<std::size_t>(most_rank));
  }
};

// All 59, in the order of the catalogue.
std::span<const LayerKind> layer_kinds();
// Throws Error when there is none of that name.
const LayerKind& layer_kind(std::string_view name);

// A layer of this type on operands of these shapes, with parameters drawn; nothing when it does not fit.
std::optional<LayerSpec> draw_layer(const LayerKind& kind, const std::vector<Dims>& operands, Chooser& choose);

// What a layer comes to without building it: nothing when it cannot be built.
struct LayerSize {
  Dims dims = {};
  std::int64_t weights = 0, most_elements = 0;
  std::size_t nodes = 0;
};
std::optional<LayerSize> size_of_layer(const LayerSpec& spec, const std::vector<Dims>& operands);

ValueId build_layer(Net& net, const LayerSpec& spec, const std::vector<ValueId>& operands);

// The kinds, a family per file.
std::vector<LayerKind> window_layers();
std::vector<LayerKind> pooling_layers();
std::vector<LayerKind> recurrent_layers();
std::vector<LayerKind> shape_layers();
std::vector<LayerKind> value_layers();
std::vector<LayerKind> merging_layers();

}  // namespace finity::muffin
