#include "ops/movement/movement_rules.h"

#include <algorithm>

#include "ops/shared/range_rules.h"
#include "tensor/convert.h"

namespace finity {

std::optional<std::vector<std::int64_t>> known_numbers(RangeCall& call, std::string_view attr, std::size_t input) {
  if (!call.has_input(input)) return call.integers(attr);
  return call.ints(input);
}

std::string elements_text(const RangeCall& call, std::size_t input) {
  constexpr std::int64_t kFew = 16;
  const AbsTensor& x = call.in(input);
  if (x.exact && x.exact->size() <= kFew && is_int(x.exact->dtype())) {
    std::string text = "=";
    for (const std::int64_t size : x.exact->dims()) text += std::to_string(size) + "x";
    for (std::int64_t i = 0; i < x.exact->size(); ++i) text += "," + std::to_string(element_as_int(*x.exact, i));
    return text;
  }
  // Inside a loop the same value has other elements in each iteration.
  if (!x.identity.valid() || (call.description().loops > 0 && !x.exact)) return "";
  return "v" + std::to_string(x.identity.index);
}

void settle(RangeCall& call, std::size_t i, AbsTensor result) {
  const Type& type = call.out_type(i);
  if (result.dtype == DType::undefined || !type.is_tensor()) result.dtype = uniform(type, {}).dtype;
  if (type.is_tensor() && type.ranked) {
    const Dims sizes = sizes_of(type);
    if (!result.ranked || result.rank() != sizes.size()) return call.out(i, result.hull());
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (result.sizes[axis] < 0) result.sizes[axis] = sizes[axis];
    }
  }
  simplify(result, call.max_cells());
  call.out(i, std::move(result));
}

bool settle_unmoved(RangeCall& call) {
  const Type& from = call.in_type(0);
  const Type& to = call.out_type(0);
  if (!from.ranked || !to.ranked || from.shape.size() != to.shape.size()) return false;
  for (std::size_t i = 0; i < from.shape.size(); ++i) {
    if (!surely_equal(from.shape[i], to.shape[i])) return false;
  }
  call.same(0, 0);
  return true;
}

Range whole_numbers(double lo, double hi) { return {.lo = lo, .hi = hi, .integer = true}; }

Range positions_below(double most) { return most < 1 ? Range{} : whole_numbers(0, most - 1); }

Range positions_along(const AbsTensor& x, std::size_t axis) { return positions_below(x.size_limits(axis).most); }

Range size_range(const Dim& dim) {
  if (dim.known()) return point(static_cast<double>(dim.size));
  // That there is an element must be declared where the number itself is used.
  return whole_numbers(0, static_cast<double>(dim.most_size()));
}

std::int64_t size_along(const AbsTensor& x, std::size_t axis) {
  return x.ranked && axis < x.rank() ? x.sizes[axis] : -1;
}

}  // namespace finity
