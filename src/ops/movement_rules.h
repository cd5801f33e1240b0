// What range rules of data movement share: parameters that may be known, results
// that must agree with the inferred type, and index ranges.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "domain/movement.h"
#include "ops/range_call.h"

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

// Whole numbers 0 ... size - 1; below kManyElements when the size is unknown (-1).
Range positions_below(std::int64_t size);
// Whole numbers lo ... hi as an int64 range.
Range whole_numbers(double lo, double hi);
// A size: exact, or 0 up to kManyElements. `may_be_zero`: of a value that may have no elements.
Range size_range(const Dim& dim, bool may_be_zero);
// A size that is computed may be 0. Only one that comes as it is from a shape is taken to be at least 1.
bool may_be_no_size(const Range& size);
bool may_be_no_size(const AbsTensor& sizes);
// Slice between places that are computed. Only a start at zero and an end after it are known to leave something.
bool may_slice_nothing(const RangeCall& call, const std::optional<std::vector<std::int64_t>>& starts);
// Slice between these places of an axis whose size is not known, but at least 1.
bool may_slice_nothing(std::int64_t start, std::int64_t end, std::int64_t step);
// Size of an axis in the operand's range, or -1.
std::int64_t size_along(const AbsTensor& x, std::size_t axis);

}  // namespace finity
