// Premises around concrete inputs: what a test runs with lies inside them.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "check/contract.h"
#include "exec/reference.h"

namespace finity {

// near: a little more than the element. wide: across zero. huge: far enough for products to overflow. apart: as wide,
// but a quarter away from zero.
enum class Spread : std::uint8_t { near, wide, huge, positive, negative, apart };

// What may come besides the numbers.
struct Besides {
  Spread spread = Spread::near;
  bool alternate = false;  // every second operand is negative instead of positive, or the other way round
  bool integers = false;   // spread like floats
  bool pinf = false;
  bool ninf = false;
  bool nan = false;

  bool odd() const { return spread != Spread::near || integers || pinf || ninf || nan; }
};

// Each float element may be more than it is, as `besides` says; integers stay what they are unless it says so.
AbsTensor around(const Tensor& tensor, std::size_t max_cells, const Besides& besides = {});

// Inputs that are sequences, strings or not given keep the usual guess.
Premises premises_around(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells,
                         const Besides& besides = {});

// The same elements, each operand treated in a way of its own: near or far, cut anywhere, with infinities or NaN here
// and there. Most integers stay what they are.
Premises mixed_premises(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells, Rng& rng);

}  // namespace finity
