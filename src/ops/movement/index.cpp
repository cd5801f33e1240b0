// Ops that look elements up by index.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "domain/row_bounds.h"
#include "domain/symbol_moves.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
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

// ---- Gather ----------------------------------------------------------------

// data's shape with the axis replaced by the shape of indices.
template <class S>
S gathered(const S& data, const S& indices, std::size_t axis) {
  S result(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
  result.insert(result.end(), indices.begin(), indices.end());
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  return result;
}

void gather_shape_value(InferCall& call) {
  const auto data = shape_elements(call, 0);
  const auto indices = call.ints(1);
  if (!data || !indices || call.rank(1) > 1) return;
  Shape result;
  for (const std::int64_t index : *indices) {
    result.push_back((*data)[static_cast<std::size_t>(checked_index(index, static_cast<std::int64_t>(data->size())))]);
  }
  call.set_shape_value(0, std::move(result));
}

void infer_gather(InferCall& call) {
  if (!call.ranked(0)) return;
  const std::size_t axis = normalize_axis(call.integer("axis"), call.rank(0));
  if (!call.ranked(1)) return;
  call.set_shape(0, gathered(call.shape(0), call.shape(1), axis));
  if (call.rank(0) == 1) gather_shape_value(call);
}

void eval_gather(EvalCall& call) {
  const Tensor& data = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), data.rank());
  const AxisView view(data.dims(), axis);
  Dims dims = gathered(data.dims(), call.in(1).dims(), axis);
  require_computable(dims);
  std::vector<std::int64_t> rows = elements<std::int64_t>(call.in(1));
  for (std::int64_t& row : rows) row = checked_index(row, view.length) * view.inner;
  if (element_count(dims) == 0) {
    call.out(0, Tensor(data.dtype(), std::move(dims)));
    return;
  }
  const AxisOffsets offsets = {ramp(view.outer, view.length * view.inner), rows, ramp(view.inner, 1)};
  call.out(0, pick(data, offsets).reshaped(std::move(dims)));
}

// The part of an axis that indices in this range can reach, all of it when they may be outside.
AbsTensor reachable(RangeCall& call, const AbsTensor& x, std::size_t axis, const Range& indices) {
  const auto size = static_cast<double>(x.sizes[axis]);
  const double shift = indices.hi < 0 ? size : 0;
  const double lo = indices.lo + shift, hi = indices.hi + shift;
  if (!(size > 0 && indices.is_finite() && lo >= 0 && hi < size)) return x;
  return sliced(x, axis, static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi - lo) + 1, call.symbols());
}

// Indices known to the last: a choice of slices, then the axis in the shape of the indices.
AbsTensor gathered_at(RangeCall& call, const AbsTensor& x, std::size_t axis, std::vector<std::int64_t> indices) {
  for (std::int64_t& index : indices) index = checked_index(index, x.sizes[axis]);
  const AbsTensor rows = gathered(x, axis, indices, elements_text(call, 1), call.max_cells(), call.symbols());
  const Dims sizes = call.value(1)->dims();
  AbsTensor result = sizes.size() == 1 ? rows : split_axis(rows, axis, sizes, call.symbols());
  if (!indices.empty()) result.relations = relations_of_slices(x, axis, sizes.size());
  return result;
}

// Indices that depend on the input: any slice, but the same ones for the same indices.
AbsTensor gathered_somewhere(RangeCall& call, const AbsTensor& x, std::size_t axis) {
  const AbsTensor& indices = call.in(1);
  const std::string text = elements_text(call, 1);
  const std::string from_end = std::to_string(x.rank() - axis);
  const std::string step = text.empty() ? "" : "X" + from_end + ":" + std::to_string(indices.rank()) + ":" + text;
  const bool cut = x.blocks(axis) > 1;
  AbsTensor result = looked_up(cut ? reachable(call, x, axis, indices.hull()) : x, axis, indices.sizes, cut ? "" : step,
                               call.symbols());
  result.relations = relations_of_slices(x, axis, indices.rank());
  return result;
}

// Unknown rows of a constant. All of them: values with the same index must have the same rows.
void give_gathered_rows(RangeCall& call, std::size_t axis) {
  const AbsTensor& x = call.in(0);
  const AbsTensor& indices = call.in(1);
  if (!x.exact || !indices.identity.valid() || x.exact->empty()) return;
  give_rows(call, 0,
            {.table = x.exact, .index = indices.identity, .index_rank = indices.rank(), .behind = x.rank() - 1 - axis});
}

void range_gather(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked || !call.in(1).ranked) return call.out(0, x.hull());
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  const auto known = x.sizes[axis] >= 0 ? call.ints(1) : std::nullopt;
  settle(call, 0, known ? gathered_at(call, x, axis, *known) : gathered_somewhere(call, x, axis));
  if (!known) give_gathered_rows(call, axis);
  const bool one = known && known->size() == 1 && x.sizes[axis] > 0;
  if (!one) return;
  // A column of rows that were gathered before.
  const std::int64_t column = checked_index(known->front(), x.sizes[axis]);
  const bool gone = call.in(1).rank() == 0;
  move_rows(call, 0, axis, gone ? -1 : 0, [&](const Tensor& table, std::size_t at) {
    return gone ? take_at(table, at, column) : take_range(table, at, column, 1);
  });
}

// ---- GatherElements --------------------------------------------------------

void infer_gather_elements(InferCall& call) {
  if (call.ranked(0) && call.ranked(1) && call.rank(0) != call.rank(1)) {
    throw Error("data has rank " + std::to_string(call.rank(0)) + " but indices has rank " +
                std::to_string(call.rank(1)));
  }
  if (call.ranked(0)) normalize_axis(call.integer("axis"), call.rank(0));
  if (call.ranked(1)) call.set_shape(0, call.shape(1));
  else if (call.ranked(0)) call.set_shape(0, unknown_shape(call.rank(0)));
}

void eval_gather_elements(EvalCall& call) {
  call.out(0, gather_elements(call.in(0), call.in(1).dims(),
                              element_positions(call.in(0).dims(), call.in(1), call.integer("axis"))));
}

void range_gather_elements(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const AbsTensor& indices = call.in(1);
  if (!x.ranked || !indices.ranked || x.rank() != indices.rank()) return call.out(0, x.hull());
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  AbsTensor result = selected(reachable(call, x, axis, indices.hull()), axis, indices.sizes[axis], "", call.symbols());
  // Along the other axes the first elements are taken, as many as there are indices.
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i == axis || indices.sizes[i] == x.sizes[i]) continue;
    const bool known = indices.sizes[i] >= 0 && indices.sizes[i] <= x.sizes[i];
    if (known) result = sliced(result, i, 0, indices.sizes[i], call.symbols());
    else result = selected(result, i, indices.sizes[i], "", call.symbols());
  }
  settle(call, 0, std::move(result));
}

// ---- GatherND --------------------------------------------------------------

std::size_t batch_dims(const Call& call) {
  const std::int64_t count = call.integer("batch_dims");
  if (count < 0) throw Error("batch_dims " + std::to_string(count));
  return static_cast<std::size_t>(count);
}

// indices' shape without its last axis, then the axes of data that a tuple of that length does not index.
Shape gathered_nd(const Shape& data, const Shape& indices, std::size_t batch) {
  if (batch >= indices.size() || batch >= data.size()) throw Error("batch_dims is not below the ranks of the inputs");
  check_tuples(indices, data.size() - batch);
  for (std::size_t i = 0; i < batch; ++i) same(data[i], indices[i], "a batch dimension");
  Shape result(indices.begin(), indices.end() - 1);
  const std::int64_t length = indices.back().size;
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(batch) + length, data.end());
  return result;
}

void infer_gather_nd(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1)) return;
  if (!call.shape(1).empty() && !call.shape(1).back().known()) return;
  call.set_shape(0, gathered_nd(call.shape(0), call.shape(1), batch_dims(call)));
}

void eval_gather_nd(EvalCall& call) {
  const Tensor& data = call.in(0);
  const Tensor& indices = call.in(1);
  const std::size_t batch = batch_dims(call);
  const Dims dims = sizes_of(gathered_nd(shape_of(data), shape_of(indices), batch));
  require_computable(dims);
  const std::vector<std::int64_t> starts = tuple_positions(data.dims(), indices, batch);
  std::int64_t inner = 1;
  for (std::size_t i = batch + static_cast<std::size_t>(indices.dims().back()); i < data.rank(); ++i) {
    inner *= data.dim(i);
  }
  if (element_count(dims) == 0) call.out(0, Tensor(data.dtype(), dims));
  else call.out(0, pick(data, {starts, ramp(inner, 1)}).reshaped(dims));
}

// Whatever the tuples are, the axes behind those they index stay as they are.
void range_gather_nd(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const AbsTensor& indices = call.in(1);
  const Type& type = call.out_type(0);
  const bool known = x.ranked && type.ranked && indices.ranked && indices.rank() > 0 && indices.sizes.back() > 0;
  const std::size_t gone = known ? batch_dims(call) + static_cast<std::size_t>(indices.sizes.back()) : 0;
  if (!known || gone > x.rank() || !x.cut()) return call.out(0, x.hull());
  AbsTensor joined = x;
  for (std::size_t axis = 0; axis < gone; ++axis) joined = selected(joined, axis, 1, "", call.symbols());
  const Dims sizes = sizes_of(type);
  const std::size_t stay = x.rank() - gone;
  if (stay > sizes.size()) return call.out(0, x.hull());
  AbsTensor result = uniform(type, {});
  result.cells = joined.cells;
  if (joined.cut()) {
    result.cuts.assign(sizes.size(), {});
    std::copy_n(joined.cuts.begin() + static_cast<std::ptrdiff_t>(gone), stay,
                result.cuts.end() - static_cast<std::ptrdiff_t>(stay));
    std::copy_n(x.sizes.begin() + static_cast<std::ptrdiff_t>(gone), stay,
                result.sizes.end() - static_cast<std::ptrdiff_t>(stay));
  }
  settle(call, 0, std::move(result));
}

// ---- OneHot ----------------------------------------------------------------

Shape one_hot_shape(const Shape& indices, const Dim& depth, std::int64_t axis) {
  Shape result = indices;
  const std::size_t at = normalize_axis(axis, indices.size(), true);
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), depth);
  return result;
}

std::int64_t depth_of(const Tensor& depth) {
  const std::int64_t result = element_as_int(depth, 0);
  if (result < 0) throw Error("depth " + std::to_string(result));
  return result;
}

void infer_one_hot(InferCall& call) {
  if (!call.ranked(0)) return;
  Dim depth;
  if (const Tensor* value = call.value(1)) depth = Dim::of(depth_of(*value));
  else if (const auto dims = shape_elements(call, 1); dims && dims->size() == 1) depth = dims->front();
  call.set_shape(0, one_hot_shape(call.shape(0), depth, call.integer("axis")));
}

void eval_one_hot(EvalCall& call) {
  const Tensor& values = call.in(2);
  if (values.size() != 2) throw Error("values must be [off, on]");
  const std::int64_t depth = depth_of(call.in(1));
  const std::int64_t axis = call.integer("axis");
  const Dims dims = sizes_of(one_hot_shape(shape_of(call.in(0)), Dim::of(depth), axis));
  require_computable(dims);
  // Opset 11 counts negative indices from the end; before, they were out of range.
  const bool wraps = call.version() >= 11;
  std::vector<std::int64_t> hot = elements<std::int64_t>(call.in(0));
  for (std::int64_t& index : hot) {
    if (wraps && index < 0 && index >= -depth) index += depth;
  }
  const AxisView view(dims, normalize_axis(axis, call.in(0).rank(), true));
  std::vector<std::int64_t> positions(static_cast<std::size_t>(element_count(dims)), 0);
  for (std::size_t i = 0; i < hot.size() && !positions.empty(); ++i) {
    if (hot[i] < 0 || hot[i] >= depth) continue;
    const auto at = static_cast<std::int64_t>(i);
    positions[view.at(at / view.inner, hot[i], at % view.inner)] = 1;
  }
  call.out(0, gather_elements(values, dims, positions));
}

// Rows of zeros with a single one: they sum to one when every index is inside.
void one_hot_rows(RangeCall& call, AbsTensor& result) {
  const Tensor* values = call.value(2);
  const auto depth = call.value(1) != nullptr ? std::optional(depth_of(*call.value(1))) : std::nullopt;
  if (values == nullptr || values->size() != 2 || !depth || !result.ranked || !is_float(result.dtype)) return;
  if (element_as_double(*values, 0) != 0 || element_as_double(*values, 1) != 1) return;
  const Range hot = call.hull(0);
  const auto size = static_cast<double>(*depth);
  const bool inside = hot.is_finite() && hot.integer && hot.hi < size && hot.lo >= (call.version() >= 11 ? -size : 0);
  const std::size_t axis = normalize_axis(call.integer("axis"), result.rank());
  if (axis >= 32) return;
  const Range sums = whole_numbers(inside ? 1 : 0, 1);
  result.relations.push_back(RowBound{.axes = AxisBits{1} << axis, .of = Of::sum, .in = sums});
  result.relations.push_back(RowBound{.axes = AxisBits{1} << axis, .of = Of::largest, .in = sums});
}

void range_one_hot(RangeCall& call) {
  AbsTensor result = uniform(call.out_type(0), call.hull(2));
  one_hot_rows(call, result);
  settle(call, 0, std::move(result));
}

// ---- gradients -------------------------------------------------------------

void gradient_of_gather(BuildCall& call) {
  if (!call.wanted(0)) return;
  if (!call.in_type(0).ranked || !call.in_type(1).ranked) return movement_gradient(call);
  call.give(0, gather_gradient(call, call.grad(0), call.in(0), call.in(1), call.integer("axis")));
}

void gather_elements_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  Attrs attrs = with_attr("reduction", std::string("add"));
  attrs.set("axis", call.integer("axis"));
  const ValueId zeros = call.zeros_like(call.in(0));
  call.give(0, call.add("ScatterElements", {zeros, call.in(1), call.grad(0)}, std::move(attrs)));
}

void gather_nd_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  if (batch_dims(call) != 0) return movement_gradient(call);
  const ValueId zeros = call.zeros_like(call.in(0));
  call.give(0, call.add("ScatterND", {zeros, call.in(1), call.grad(0)}, with_attr("reduction", std::string("add"))));
}

// The values are [off, on]; each gets what arrives where it stands.
void one_hot_gradient(BuildCall& call) {
  if (!call.wanted(2)) return;
  const DType dtype = call.in_type(2).dtype;
  const auto total_where = [&](double off, double on) {
    const double values[] = {off, on};
    std::vector<ValueId> inputs = call.inputs();
    inputs[2] = call.writer().constant(from_elements<double>(dtype, {2}, values));
    const ValueId mask = call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front();
    const ValueId total =
        call.add("ReduceSum", {call.product(mask, call.grad(0))}, with_attr("keepdims", std::int64_t{0}));
    return reshape_to(call, total, {1});
  };
  const ValueId off = total_where(1, 0);
  call.give(2, call.add("Concat", {off, total_where(0, 1)}, with_attr("axis", std::int64_t{0})));
}

// ---- drawing ---------------------------------------------------------------

// Of the axis that is indexed.
std::int64_t indexed_length(DrawCall& call) {
  return call.rank() == 0 ? 1 : std::max<std::int64_t>(call.length(call.axis("axis", 0)), 1);
}

bool draw_gather(DrawCall& call) {
  Dims dims;
  for (std::int64_t i = call.between(0, 2); i > 0; --i) dims.push_back(call.between(1, 3));
  call.add_indices(std::move(dims), indexed_length(call));
  return true;
}

bool draw_gather_elements(DrawCall& call) {
  Dims dims = call.dims();
  if (!dims.empty()) dims[static_cast<std::size_t>(call.axis("axis", 0))] = call.between(1, 4);
  call.add_indices(std::move(dims), indexed_length(call));
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Gather",
                  .summary = "slices of one axis, by index",
                  .signature = "(data: T, indices: int32 | int64) -> (output: T) where T: any",
                  .attrs = "axis: int = 0",
                  .tf = "GatherV2"},
     .meaning = {.infer = infer_gather, .eval = eval_gather},
     .analysis = {.range = range_gather, .vjp = gradient_of_gather},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_gather, .often = 1}},
    {.identity = {.name = "GatherElements",
                  .since = 11,
                  .summary = "for each index the element at its place, with `axis` replaced by the index",
                  .signature = "(data: T, indices: int32 | int64) -> (output: T) where T: any",
                  .attrs = "axis: int = 0"},
     .meaning = {.infer = infer_gather_elements, .eval = eval_gather_elements},
     .analysis = {.range = range_gather_elements, .vjp = gather_elements_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_gather_elements}},
    {.identity = {.name = "GatherND",
                  .since = 11,
                  .summary = "slices by index tuples",
                  .signature = "(data: T, indices: int64) -> (output: T) where T: any",
                  .attrs = "batch_dims: int = 0 since 12",
                  .tf = "GatherNd"},
     .meaning = {.infer = infer_gather_nd, .eval = eval_gather_nd},
     .analysis = {.range = range_gather_nd, .vjp = gather_nd_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved}},
    {.identity = {.name = "OneHot",
                  .since = 9,
                  .summary = "values[1] where the new axis equals the index, values[0] elsewhere",
                  .signature = "(indices: number, depth: number, values: T) -> (output: T) where T: any",
                  .attrs = "axis: int = -1",
                  .tf = "OneHot"},
     .meaning = {.infer = infer_one_hot, .eval = eval_one_hot},
     .analysis = {.range = range_one_hot, .vjp = one_hot_gradient},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> index_ops() { return kOps; }

}  // namespace finity
