// What range rules of data movement share: parameters that may be known, results
// that must agree with the inferred type, and index ranges.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "domain/movement.h"
#include "ops/table/range_call.h"

namespace finity {

// Elements of input `input`, or of attribute `attr` where the op has no such input; nullopt when they are not known.
std::optional<std::vector<std::int64_t>> known_numbers(RangeCall& call, std::string_view attr, std::size_t input);

// Describes the elements of an integer operand exactly, for movement steps: equal texts are equal elements, whenever
// they are used. "" when it cannot be said.
std::string elements_text(const RangeCall& call, std::size_t input);

// Output i is `result`, with the sizes that inference knows and at most max_cells cells.
void settle(RangeCall& call, std::size_t i, AbsTensor result);
// The same when input 0 keeps its shape for certain: output 0 has its elements at the same indices.
bool settle_unmoved(RangeCall& call);

// Whole numbers 0 ... most - 1.
Range positions_below(double most);
// Positions along an axis of x.
Range positions_along(const AbsTensor& x, std::size_t axis);
// Whole numbers lo ... hi as an int64 range.
Range whole_numbers(double lo, double hi);
// A size as a number: exact, or 0 up to the most it may be.
Range size_range(const Dim& dim);
// Size of an axis in the operand's range, or -1.
std::int64_t size_along(const AbsTensor& x, std::size_t axis);

}  // namespace finity
