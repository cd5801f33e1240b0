// Cutting parts out of a tensor.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/error.h"
#include "domain/row_bounds.h"
#include "domain/symbol_moves.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/lengths.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/pieces.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/row_tables.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Slice -----------------------------------------------------------------

struct Picked {
  std::int64_t start = 0;
  std::int64_t count = 0;
};

// Which indices of an axis of size n are taken; negative bounds count from the end, others are clamped.
Picked slice_range(std::int64_t n, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0) throw Error("step 0");
  const auto clamp = [&](std::int64_t x) {
    const std::int64_t from_front = x < 0 ? x + n : x;
    return step > 0 ? std::clamp(from_front, std::int64_t{0}, n) : std::clamp(from_front, std::int64_t{-1}, n - 1);
  };
  Picked range{.start = clamp(start)};
  const std::int64_t distance = clamp(end) - range.start;
  if (step > 0 && distance > 0) range.count = (distance - 1) / step + 1;
  if (step < 0 && distance < 0) range.count = (distance + 1) / step + 1;
  return range;
}

struct SliceParams {
  std::vector<std::size_t> axes = {};
  Entries starts = {};
  Entries ends = {};
  Entries steps = {};
};

// Lists in the order of axes; empty steps are all 1.
SliceParams slice_params(Entries starts, Entries ends, Entries steps, std::vector<std::size_t> axes) {
  if (steps.empty()) steps.assign(starts.size(), Entry::of(1));
  if (ends.size() != starts.size() || steps.size() != starts.size()) {
    throw Error("starts, ends and steps have " + std::to_string(starts.size()) + ", " + std::to_string(ends.size()) +
                " and " + std::to_string(steps.size()) + " elements");
  }
  return {.axes = std::move(axes), .starts = std::move(starts), .ends = std::move(ends), .steps = std::move(steps)};
}

// Every element of an axis whose size need not be known.
bool takes_all(const Dim& dim, const Entry& start, const Entry& end, std::int64_t step) {
  constexpr std::int64_t kBeyond = std::numeric_limits<std::int32_t>::max();
  if (step == 1 && start.number == 0) return (end.number && *end.number >= kBeyond) || surely_equal(end.dim, dim);
  return step == -1 && start.number && end.number && (*start.number == -1 || *start.number >= kBeyond) &&
         *end.number <= -kBeyond;
}

// The fewest that can be left: of the largest start, the smallest end, and the shortest or longest axis. A bound below
// zero counts from the end, so it may also lie behind one that is not.
std::int64_t least_sliced(const Dim& dim, const Entry& start, const Entry& end, std::int64_t step) {
  std::vector<std::int64_t> starts = {start.highest()}, ends = {end.lowest()};
  if (start.lowest() < 0) starts.push_back(std::min<std::int64_t>(start.highest(), -1));
  if (end.lowest() < 0 && end.highest() >= 0) ends.push_back(0);
  std::int64_t least = dim.most_size();
  for (const std::int64_t size : {dim.least_size(), dim.most_size()}) {
    for (const std::int64_t from : starts) {
      for (const std::int64_t to : ends) least = std::min(least, slice_range(size, from, to, step).count);
    }
  }
  return least;
}

std::int64_t most_sliced(const Dim& dim, const Entry& start, const Entry& end, std::int64_t step) {
  std::int64_t most = dim.most_size();
  if (end.lowest() >= 0) most = std::min(most, end.highest());
  if (start.lowest() >= 0) most -= std::min(most, start.lowest());
  // The last ones.
  if (start.highest() < 0 && start.lowest() > -most) most = -start.lowest();
  return steps_in(Dim::of(most), step).size;
}

Dim sliced(const Dim& dim, const Entry& start, const Entry& end, const Entry& step) {
  if (!step.number) return some_of(dim);
  if (*step.number == 0) throw Error("step 0");
  if (takes_all(dim, start, end, *step.number)) return surely_equal(dim, end.dim) ? either(dim, end.dim) : dim;
  if (dim.known() && start.number && end.number) {
    return Dim::of(slice_range(dim.size, *start.number, *end.number, *step.number).count);
  }
  if (*step.number > 0) {
    return Dim::between(least_sliced(dim, start, end, *step.number), most_sliced(dim, start, end, *step.number));
  }
  const bool backwards = takes_all({}, start, end, -1);
  return backwards ? steps_in(dim, -std::max(*step.number, -Dim::kNoMost)) : some_of(dim);
}

void require_bounds(const Call& call) {
  if (!given(call, "starts", 1) || !given(call, "ends", 2)) throw Error("starts or ends are missing");
}

std::optional<SliceParams> slice_params(const InferCall& call) {
  const auto starts = entries(call, "starts", 1);
  const auto ends = entries(call, "ends", 2);
  const auto axes = numbers(entries(call, "axes", 3));
  const auto steps = entries(call, {}, 4);
  if (!starts || !ends || !axes || !steps) return std::nullopt;
  return slice_params(*starts, *ends, *steps,
                      axes_or_first(*axes, given(call, "axes", 3), starts->size(), call.rank(0)));
}

void slice_shape_value(InferCall& call, const SliceParams& params) {
  const auto value = shape_elements(call, 0);
  if (!value || call.rank(0) != 1 || params.axes.size() != 1) return;
  const auto n = static_cast<std::int64_t>(value->size());
  const auto &start = params.starts[0].number, &end = params.ends[0].number, &step = params.steps[0].number;
  if (!start || !end || !step) return;
  const Picked range = slice_range(n, *start, *end, *step);
  Shape result;
  for (std::int64_t i = 0; i < range.count; ++i) {
    result.push_back((*value)[static_cast<std::size_t>(range.start + i * *step)]);
  }
  call.set_shape_value(0, std::move(result));
}

void infer_slice(InferCall& call) {
  require_bounds(call);
  if (!call.ranked(0)) return;
  const auto params = slice_params(call);
  Shape result = call.shape(0);
  if (!params) {
    for (Dim& dim : result) dim = some_of(dim);
    call.set_shape(0, std::move(result));
    return;
  }
  for (std::size_t i = 0; i < params->axes.size(); ++i) {
    Dim& dim = result[params->axes[i]];
    dim = sliced(dim, params->starts[i], params->ends[i], params->steps[i]);
  }
  call.set_shape(0, std::move(result));
  slice_shape_value(call, *params);
}

void eval_slice(EvalCall& call) {
  require_bounds(call);
  const Tensor& in = call.in(0);
  const Entries starts = entries_of(numbers(call, "starts", 1));
  const auto axes = axes_or_first(numbers(call, "axes", 3), given(call, "axes", 3), starts.size(), in.rank());
  const SliceParams params =
      slice_params(starts, entries_of(numbers(call, "ends", 2)), entries_of(numbers(call, {}, 4)), axes);
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  AxisOffsets offsets = plain_offsets(in.dims());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = axes[i];
    const std::int64_t step = *params.steps[i].number;
    const Picked range = slice_range(in.dim(axis), *params.starts[i].number, *params.ends[i].number, step);
    offsets[axis].clear();
    for (std::int64_t k = 0; k < range.count; ++k) offsets[axis].push_back((range.start + k * step) * strides[axis]);
  }
  call.out(0, pick(in, offsets));
}

// Every step-th index of one axis.
AbsTensor strided(RangeCall& call, const AbsTensor& x, std::size_t axis, const std::array<std::int64_t, 3>& bounds) {
  const auto [start, end, step] = bounds;
  const std::string text = std::to_string(start) + ":" + std::to_string(end) + ":" + std::to_string(step);
  if (step == 0) throw Error("step 0");
  if (x.sizes[axis] < 0) {
    const bool all = takes_all({}, Entry::of(start), Entry::of(end), step) && step == 1;
    if (all) return x;
    AbsTensor result = selected(x, axis, -1, select_step(x.rank() - axis, text), call.symbols());
    result.relations = relations_of_part(x, axis);
    return result;
  }
  const Picked range = slice_range(x.sizes[axis], start, end, step);
  if (step == 1 || range.count <= 1) return sliced(x, axis, range.start, range.count, call.symbols());
  constexpr std::int64_t kLongList = 1 << 16;
  if (range.count > kLongList) return selected(x, axis, range.count, "", call.symbols());
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < range.count; ++i) indices.push_back(range.start + i * step);
  return gathered(x, axis, indices, text, call.max_cells(), call.symbols());
}

// Bounds that are only known when the model runs.
void range_slice_somewhere(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto axes = known_numbers(call, "axes", 3);
  const auto starts = known_numbers(call, "starts", 1);
  const auto count = starts ? std::optional(starts->size()) : std::nullopt;
  AbsTensor result = x;
  const auto cut_somewhere = [&](std::size_t axis) {
    Relations rows = relations_of_part(result, axis);
    result = selected(result, axis, -1, "", call.symbols());
    result.relations = std::move(rows);
  };
  if (axes && given(call, "axes", 3)) {
    for (const std::size_t axis : normalize_axes(*axes, x.rank())) cut_somewhere(axis);
  } else {
    const std::size_t touched = given(call, "axes", 3) ? x.rank() : std::min(count.value_or(x.rank()), x.rank());
    for (std::size_t axis = 0; axis < touched; ++axis) cut_somewhere(axis);
  }
  settle(call, 0, std::move(result));
}

void range_slice(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked) return call.out(0, x.hull());
  const auto starts = known_numbers(call, "starts", 1);
  const auto ends = known_numbers(call, "ends", 2);
  const auto axes = known_numbers(call, "axes", 3);
  const auto steps = known_numbers(call, {}, 4);
  if (!starts || !ends || !axes || !steps) return range_slice_somewhere(call);
  const bool forward = std::ranges::all_of(*steps, [](std::int64_t step) { return step == 1; });
  if (forward && settle_unmoved(call)) return;
  const SliceParams params = slice_params(entries_of(*starts), entries_of(*ends), entries_of(*steps),
                                          axes_or_first(*axes, given(call, "axes", 3), starts->size(), x.rank()));
  AbsTensor result = x;
  for (std::size_t i = 0; i < params.axes.size(); ++i) {
    const std::array bounds = {*params.starts[i].number, *params.ends[i].number, *params.steps[i].number};
    result = strided(call, result, params.axes[i], bounds);
  }
  settle(call, 0, std::move(result));
  if (!forward || params.axes.size() != 1) return;
  move_rows(call, 0, params.axes[0], 0, [&](const Tensor& table, std::size_t at) {
    const Picked range = slice_range(table.dim(at), starts->front(), ends->front(), 1);
    return take_range(table, at, range.start, range.count);
  });
}

// ---- gradients -------------------------------------------------------------

// How much is cut off before each axis and then behind each, when that is known and nothing in between is left out.
std::optional<std::vector<std::int64_t>> cut_margins(const BuildCall& call) {
  const Type& type = call.in_type(0);
  const auto starts = known_numbers(call, "starts", 1), ends = known_numbers(call, "ends", 2);
  const auto axes = known_numbers(call, "axes", 3), steps = known_numbers(call, {}, 4);
  if (!type.ranked || !starts || !ends || !axes || !steps) return std::nullopt;
  const std::size_t rank = type.shape.size();
  const SliceParams params = slice_params(entries_of(*starts), entries_of(*ends), entries_of(*steps),
                                          axes_or_first(*axes, given(call, "axes", 3), starts->size(), rank));
  std::vector<std::int64_t> result(2 * rank, 0);
  for (std::size_t i = 0; i < params.axes.size(); ++i) {
    const Dim& dim = type.shape[params.axes[i]];
    if (params.steps[i].number != 1) return std::nullopt;
    if (takes_all(dim, params.starts[i], params.ends[i], 1)) continue;
    if (!dim.known()) return std::nullopt;
    const Picked range = slice_range(dim.size, *params.starts[i].number, *params.ends[i].number, 1);
    result[params.axes[i]] = range.start;
    result[rank + params.axes[i]] = dim.size - range.start - range.count;
  }
  return result;
}

// Zeros where something was cut off.
void slice_gradient(BuildCall& call) {
  std::optional<std::vector<std::int64_t>> margins = cut_margins(call);
  if (!margins) return movement_gradient(call);
  call.give(0, call.add("Pad", {call.grad(0), call.ints(std::move(*margins))}));
}

// ---- drawing ---------------------------------------------------------------

bool draw_slice(DrawCall& call) {
  if (call.opset() < 10) return false;
  DrawCall::Ints starts, ends, axes, steps;
  for (std::int64_t axis = 0; axis < call.rank(); ++axis) {
    if (call.chance(50)) continue;
    const std::int64_t step = call.chance(70) ? call.between(1, 2) : -call.between(1, 2);
    const std::int64_t low = call.between(0, std::max<std::int64_t>(call.length(axis) - 1, 0));
    const std::int64_t high = call.between(low, call.length(axis)) + 1;
    starts.push_back(step > 0 ? low : high - 1);
    // Backwards to the very beginning: an end that is far out.
    ends.push_back(step > 0 ? high : low == 0 || call.chance(20) ? -1000 : low - 1);
    axes.push_back(call.chance(30) ? axis - call.rank() : axis);
    steps.push_back(step);
  }
  for (const DrawCall::Ints& list : {starts, ends, axes, steps}) call.add_ints(list);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Slice",
                  .summary = "every step-th index from start to end along some axes",
                  .signature = "(data: T, starts?: I since 10, ends?: I since 10, axes?: I since 10, steps?: I since "
                               "10) -> (output: T) where T: any, I: int32 | int64",
                  .attrs = "starts: ints until 9; ends: ints until 9; axes: ints until 9",
                  .tf = "StridedSlice"},
     .meaning = {.infer = infer_slice, .eval = eval_slice},
     .analysis = {.range = range_slice, .length = length_part, .vjp = slice_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_slice, .often = 1}},
    {.identity = {.name = "DynamicSlice",
                  .until = 9,
                  .summary = "Slice with computed bounds, an experimental op of early releases",
                  .signature = "(data: T, starts: I, ends: I, axes?: I) -> (output: T) where T: any, I: int32 | int64"},
     .meaning = {.infer = infer_slice, .eval = eval_slice},
     .analysis = {.range = range_slice, .vjp = slice_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved}},
};

}  // namespace

std::span<const OpDef> slice_ops() { return kOps; }

}  // namespace finity
