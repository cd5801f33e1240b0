// Range rules that several families share, and the helpers rules are written with.
#pragma once

#include <functional>

#include "ops/table/range_call.h"

namespace finity {

// Elementwise, output 0 from input 0: `f` on every cell.
void range_unary(RangeCall& call, const std::function<Range(const Range&, DType)>& f);
// Elementwise with numpy broadcasting, output 0 from inputs 0 and 1: `f` on every pair of cells.
void range_binary(RangeCall& call, const std::function<Range(const Range&, const Range&, DType)>& f);
// The broadcast of two abstract tensors with `f` on cells; the result has out_dtype. No forms, no relations.
AbsTensor zip_cells(const AbsTensor& a, const AbsTensor& b, DType out_dtype, const Dims& sizes, std::size_t max_cells,
                    const std::function<Range(const Range&, const Range&)>& f);
// Both on one common grid over the broadcast shape, forms split along (for rules that use forms).
std::pair<AbsTensor, AbsTensor> aligned(const AbsTensor& a, const AbsTensor& b, const Dims& sizes, Symbols& symbols,
                                        std::size_t max_cells);

// Increasing f with library error, template forms for table entries:
//   .range = range_increasing<std::tanh, -1, 1>
template <double (*F)(double), int Floor, int Ceiling>
void range_bounded_increasing(RangeCall& call) {
  range_unary(call, [&](const Range& x, DType dtype) { return increasing(dtype, x, F, call.ulps(), Floor, Ceiling); });
}
template <double (*F)(double)>
void range_increasing(RangeCall& call) {
  range_unary(call, [&](const Range& x, DType dtype) { return increasing(dtype, x, F, call.ulps()); });
}
// Exact in every format (floor, ceil, round, sign, ...).
template <double (*F)(double)>
void range_exact_increasing(RangeCall& call) {
  range_unary(call, [](const Range& x, DType dtype) { return increasing(dtype, x, F, 0); });
}

void range_same(RangeCall& call);      // output 0 is input 0 (Identity)
void range_shuffled(RangeCall& call);  // every output element is some element of input 0
void range_top(RangeCall& call);       // nothing known, deliberately
void range_bool(RangeCall& call);      // 0 or 1
// Broadcasting with the other operands leaves the shape of operand i as it is.
bool keeps_shape_of(const RangeCall& call, std::size_t i);
// Sizes of an output for AbsTensor, -1 where unknown; empty when unranked (see Type::ranked).
Dims sizes_of(const Type& type);

}  // namespace finity
