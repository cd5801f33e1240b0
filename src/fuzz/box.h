// The oracle's arithmetic: for one node, an enclosure of every element that any correct library may compute from
// given operands, and the same for operands that are only known to lie in boxes. It rests on the op table: results
// that every library computes to the same bits come from eval; sums of products from eval in double and a bound on
// rounding in any order; everything else from the op's range rule. Of what libraries may do only the part is granted
// that belongs to the operator's meaning (Grants::specified): what was measured of a library does not excuse it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "domain/range.h"
#include "graph/graph.h"
#include "ops/table/datum.h"
#include "types/infer.h"

namespace finity::fuzz {

struct Box {
  DType dtype = DType::undefined;
  Dims dims = {};
  std::vector<Range> cells = {};  // one per element; empty although there are elements: nothing is known
  // Of each cell whether NaN and infinities in it are those that operands hold, and not what became too large on the
  // way, of which nothing is claimed. Empty: none is.
  std::vector<bool> meant = {};

  bool present() const { return dtype != DType::undefined; }
  // Whether a result outside this cell is wrong.
  bool claims(std::size_t i) const { return !holds_more(i) || (i < meant.size() && meant[i]); }
  bool holds_more(std::size_t i) const { return cells[i].nan || cells[i].pinf || cells[i].ninf; }
  bool means_more() const;  // somewhere NaN or an infinity is meant
  bool decided() const;
  bool is_point() const;
};

Box point_box(const Tensor& tensor);
// Every float element within a relative distance: what an optimiser that changes the order of roundings may do is
// explained by that much of a change of inputs and weights.
Box around(const Tensor& tensor);
// What a step got as an operand: a point; for float16 and bfloat16 a little more, for libraries without kernels for
// them leave out the rounding between two steps.
Box operand_box(const Tensor& tensor);
// The tensor that a box of points is.
Tensor tensor_of(const Box& box);

// Results of a node of the main body of a graph without subgraphs. `types` are the graph's. Boxes that are not
// decided stand for "nothing is claimed".
std::vector<Box> enclose(const Graph& graph, const Types& types, const Node& node, const std::vector<Box>& operands);

}  // namespace finity::fuzz
