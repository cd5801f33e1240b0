#include "ops/extra/microsoft/microsoft_range.h"

#include <algorithm>
#include <cmath>

#include "domain/movement.h"
#include "ops/linear/dot_range.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"

namespace finity {

// pads may be a row [1, 2 * rank], which the other op's rule does not know.
void range_microsoft_pad(RangeCall& call) {
  if (call.in(1).ranked && call.in(1).rank() == 1) return range_alias<13>(call);
  const Range filler = call.has_range(2) ? call.hull(2) : point(0);
  call.out(0, join(call.hull(0), filler));
}

// Without delta in steps of 1. Rounding may give one element more.
void range_microsoft_range(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const Range start = call.hull(0), limit = call.hull(1);
  const Range delta = call.has_range(2) ? call.hull(2) : point(1);
  Range hull = join(start, limit);
  if (!hull.is_finite() || !delta.is_finite()) return call.top(0);
  const double slack = is_float(dtype) ? delta.magnitude() + 4 * hull.magnitude() * unit_roundoff(dtype) : 0;
  call.out(0, outward(dtype, from_bounds(dtype, hull.lo - slack, hull.hi + slack)));
}

void range_microsoft_unique(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const double most = std::min(x.most_count(~0U), max_finite(DType::int64));
  call.out(0, x.hull());
  call.out(1, Range{.lo = 0, .hi = std::max(most - 1, 0.0), .integer = true});
  call.out(2, Range{.lo = 1, .hi = std::max(most, 1.0), .integer = true});
}

void range_expand_dims(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto axis = call.ints(1);
  if (!x.ranked || !axis || axis->size() != 1) return call.out(0, x.hull());
  const std::size_t axes[] = {normalize_axis(axis->front(), x.rank(), true)};
  call.out(0, unsqueezed(x, axes, call.symbols()));
}

// ignore_index is an input; an unknown one may be any label.
void range_loss_internal(RangeCall& call) {
  Attrs attrs;
  attrs.set("reduction", call.text("reduction"));
  if (call.has_range(3)) {
    const auto index = call.ints(3);
    const Range labels = call.hull(1);
    const double any = labels.has_finite() ? labels.lo : 0;
    attrs.set("ignore_index", index && index->size() == 1 ? index->front() : static_cast<std::int64_t>(any));
  }
  range_as(call, {"SoftmaxCrossEntropyLoss", 13}, &attrs);
}

void range_microsoft_scale(RangeCall& call) {
  const bool down = call.integer("scale_down") != 0;
  const DType dtype = call.out_dtype(0);
  Range scale = call.hull(1);
  if (down) {
    call.site("FN101", 1, scale, scale.may_be_zero());
    if (scale.may_be_zero()) scale = without(scale, {{0, 0}}, call.in_dtype(1));
  }
  call.out(0, map_cells(call.in(0), dtype, [&](const Range& x) {
             return outward(dtype, down ? divide(dtype, x, scale) : multiply(dtype, x, scale));
           }));
}

}  // namespace finity
