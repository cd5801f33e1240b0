// Ops that give the same elements another shape or another order of axes, or repeat them.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "domain/symbol_moves.h"
#include "ops/elementwise/elementwise.h"
#include "ops/movement/drawn_shapes.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/movement/reshape_rule.h"
#include "ops/shared/lengths.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/row_tables.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Reshape ---------------------------------------------------------------

void require_shape(const Call& call) {
  if (!given(call, "shape", 1)) throw Error("shape is missing");
}

bool keep_zero(const Call& call) { return call.integer("allowzero") != 0; }

void infer_reshape(InferCall& call) {
  require_shape(call);
  const auto wanted = entries(call, "shape", 1);
  if (!wanted) {
    call.out(0).count = call.in(0).elements();
    return;
  }
  Shape result = reshaped_shape(call.in(0), *wanted, keep_zero(call));
  call.set_shape(0, std::move(result));
  keep_shape_value(call);
}

void eval_reshape(EvalCall& call) {
  require_shape(call);
  const Type in = Type::tensor_of(call.in(0).dtype(), call.in(0).dims());
  const Shape shape = reshaped_shape(in, entries_of(numbers(call, "shape", 1)), keep_zero(call));
  call.out(0, call.in(0).reshaped(sizes_of(shape)));
}

// Also of Flatten: the new shape is what inference says it is.
void range_reshape(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const Type& type = call.out_type(0);
  if (settle_unmoved(call)) return;
  if (!x.ranked || !type.ranked) return call.out(0, x.hull());
  settle(call, 0, reshaped(x, call.in_type(0).shape, type.shape, call.symbols()));
}

// ---- Flatten ---------------------------------------------------------------

Shape flattened(const Shape& in, std::int64_t axis) {
  const std::size_t cut = axis == static_cast<std::int64_t>(in.size()) ? in.size() : normalize_axis(axis, in.size());
  const std::span<const Dim> dims(in);
  return {product(dims.first(cut)), product(dims.subspan(cut))};
}

void infer_flatten(InferCall& call) {
  call.set_shape(0, call.ranked(0) ? flattened(call.shape(0), call.integer("axis")) : unknown_shape_of(call.in(0), 2));
}

void eval_flatten(EvalCall& call) {
  call.out(0, call.in(0).reshaped(sizes_of(flattened(shape_of(call.in(0)), call.integer("axis")))));
}

// ---- Squeeze, Unsqueeze ----------------------------------------------------

std::vector<bool> marked(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<bool> result(rank, false);
  for (const std::size_t axis : normalize_axes(axes, rank)) {
    if (result[axis]) throw Error("axis " + std::to_string(axis) + " is given twice");
    result[axis] = true;
  }
  return result;
}

Shape squeezed(const Shape& in, const std::optional<std::vector<std::int64_t>>& axes) {
  const std::vector<bool> drop = marked(axes.value_or(std::vector<std::int64_t>()), in.size());
  Shape result;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (drop[i] && in[i].known() && in[i].size != 1) {
      throw Error("cannot squeeze axis " + std::to_string(i) + " of size " + std::to_string(in[i].size));
    }
    if (!drop[i] && (axes || in[i].size != 1)) result.push_back(in[i]);
  }
  return result;
}

void infer_squeeze(InferCall& call) {
  keep_shape_value(call);
  call.out(0).count = call.in(0).elements();
  if (!call.ranked(0)) return;
  const Shape& in = call.shape(0);
  if (!given(call, "axes", 1)) {
    if (std::ranges::all_of(in, &Dim::known)) call.set_shape(0, squeezed(in, std::nullopt));
    return;
  }
  const auto wanted = entries(call, "axes", 1);
  if (const auto axes = numbers(wanted)) call.set_shape(0, squeezed(in, axes));
  else if (wanted && wanted->size() <= in.size()) {
    call.set_shape(0, unknown_shape_of(call.in(0), in.size() - wanted->size()));
  }
}

void eval_squeeze(EvalCall& call) {
  std::optional<std::vector<std::int64_t>> axes;
  if (given(call, "axes", 1)) axes = numbers(call, "axes", 1);
  call.out(0, call.in(0).reshaped(sizes_of(squeezed(shape_of(call.in(0)), axes))));
}

Shape unsqueezed(const Shape& in, std::span<const std::int64_t> axes) {
  const std::vector<bool> added = marked(axes, in.size() + axes.size());
  Shape result;
  auto next = in.begin();
  for (const bool is_new : added) result.push_back(is_new ? Dim::of(1) : *next++);
  return result;
}

void infer_unsqueeze(InferCall& call) {
  if (!given(call, "axes", 1)) throw Error("axes are missing");
  const auto wanted = entries(call, "axes", 1);
  call.out(0).count = call.in(0).elements();
  if (!call.ranked(0) || !wanted) return;
  if (const auto axes = numbers(wanted)) call.set_shape(0, unsqueezed(call.shape(0), *axes));
  else call.set_shape(0, unknown_shape_of(call.in(0), call.rank(0) + wanted->size()));
  keep_shape_value(call);
}

void eval_unsqueeze(EvalCall& call) {
  if (!given(call, "axes", 1)) throw Error("axes are missing");
  call.out(0, call.in(0).reshaped(sizes_of(unsqueezed(shape_of(call.in(0)), numbers(call, "axes", 1)))));
}

std::vector<std::size_t> axes_of(const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::vector<std::size_t> result = normalize_axes(axes, rank);
  std::ranges::sort(result);
  return result;
}

void range_squeeze(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto axes = given(call, "axes", 1) ? known_numbers(call, "axes", 1) : std::nullopt;
  if (!x.ranked || !axes) return range_reshape(call);
  settle(call, 0, squeezed(x, axes_of(*axes, x.rank()), call.symbols()));
  if (axes->size() != 1) return;
  move_rows(call, 0, axes_of(*axes, x.rank())[0], -1, [](const Tensor& table, std::size_t at) {
    Dims dims = table.dims();
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
    return table.reshaped(std::move(dims));
  });
}

void range_unsqueeze(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto axes = known_numbers(call, "axes", 1);
  if (!x.ranked || !axes) return range_reshape(call);
  settle(call, 0, unsqueezed(x, axes_of(*axes, x.rank() + axes->size()), call.symbols()));
}

// ---- Transpose -------------------------------------------------------------

std::vector<std::size_t> order_of(const Call& call, std::size_t rank) {
  const std::vector<std::int64_t> perm = call.integers("perm");
  std::vector<std::size_t> order(rank);
  if (perm.empty()) {
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    return order;
  }
  if (perm.size() != rank) {
    throw Error("perm has " + std::to_string(perm.size()) + " entries for a tensor of rank " + std::to_string(rank));
  }
  marked(perm, rank);  // throws on a repeated axis
  return normalize_axes(perm, rank);
}

void infer_transpose(InferCall& call) {
  if (!call.ranked(0)) {
    const std::size_t rank = call.integers("perm").size();
    if (rank > 0) call.set_shape(0, unknown_shape_of(call.in(0), rank));
    else call.out(0).count = call.in(0).count;
    return;
  }
  Shape result;
  for (const std::size_t axis : order_of(call, call.rank(0))) result.push_back(call.shape(0)[axis]);
  call.set_shape(0, std::move(result));
}

void eval_transpose(EvalCall& call) { call.out(0, transposed(call.in(0), order_of(call, call.in(0).rank()))); }

void range_transpose(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked) return call.out(0, x.hull());
  const std::vector<std::size_t> order = order_of(call, x.rank());
  if (std::ranges::is_sorted(order)) return call.same(0, 0);
  settle(call, 0, transposed(x, order, call.symbols()));
}

// ---- Identity --------------------------------------------------------------

void infer_identity(InferCall& call) {
  keep_shape_value(call);
  call.set_type(0, call.in(0));
}

void eval_identity(EvalCall& call) { call.out(0, call.datum(0)); }

// ---- Expand ----------------------------------------------------------------

Shape requested_shape(const Entries& wanted) {
  Shape result;
  for (const Entry& entry : wanted) {
    if (entry.number && *entry.number < 0) throw Error("negative size in shape");
    result.push_back(entry.dim);
  }
  return result;
}

void infer_expand(InferCall& call) {
  const auto wanted = entries(call, {}, 1);
  if (!wanted || !call.ranked(0)) return;
  Shape result = broadcast(call.shape(0), requested_shape(*wanted));
  const auto value = shape_elements(call, 0);
  if (value && value->size() == 1 && result.size() == 1 && result[0].known() && result[0].size <= 64)
    call.set_shape_value(0, Shape(static_cast<std::size_t>(result[0].size), value->front()));
  call.set_shape(0, std::move(result));
}

void eval_expand(EvalCall& call) {
  const Shape wanted = requested_shape(entries_of(numbers(call, {}, 1)));
  call.out(0, broadcast_to(call.in(0), broadcast(call.in(0).dims(), sizes_of(wanted))));
}

void range_expand(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (settle_unmoved(call)) return;
  if (!x.ranked || !call.out_type(0).ranked) return call.out(0, x.hull());
  settle(call, 0, broadcasted(x, sizes_of(call.out_type(0)), call.symbols()));
}

// ---- Tile ------------------------------------------------------------------

// Opset 1 repeats along one axis, (input, tiles, axis); later ones take a count per axis.
Entries repeats_per_axis(std::size_t rank, const Entries& wanted, const std::optional<std::int64_t>& axis) {
  Entries result = wanted;
  if (axis) {
    if (wanted.size() != 1) throw Error("tiles must be one number");
    result.assign(rank, Entry::of(1));
    result[normalize_axis(*axis, rank)] = wanted[0];
  }
  if (result.size() != rank) {
    throw Error("repeats has " + std::to_string(result.size()) + " elements for a tensor of rank " +
                std::to_string(rank));
  }
  const auto negative = [](const Entry& entry) { return entry.number && *entry.number < 0; };
  if (std::ranges::any_of(result, negative)) throw Error("negative number of repeats");
  return result;
}

Shape tiled(const Shape& in, const Entries& repeats) {
  Shape result;
  for (std::size_t i = 0; i < in.size(); ++i) result.push_back(times(in[i], repeats[i].dim));
  return result;
}

void infer_tile(InferCall& call) {
  if (!call.ranked(0)) return;
  const auto wanted = entries(call, {}, 1);
  const Tensor* axis = call.value(2);
  if (!wanted || (call.has_input(2) && axis == nullptr)) {
    call.set_shape(0, unknown_shape(call.rank(0)));
    return;
  }
  const auto at = axis != nullptr ? std::optional(element_as_int(*axis, 0)) : std::nullopt;
  call.set_shape(0, tiled(call.shape(0), repeats_per_axis(call.rank(0), *wanted, at)));
}

void eval_tile(EvalCall& call) {
  const Tensor& in = call.in(0);
  const auto axis = call.has_input(2) ? std::optional(element_as_int(call.in(2), 0)) : std::nullopt;
  const Entries repeats = repeats_per_axis(in.rank(), entries_of(numbers(call, {}, 1)), axis);
  const Dims dims = sizes_of(tiled(shape_of(in), repeats));
  require_computable(dims);
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  AxisOffsets offsets(in.rank());
  for (std::size_t i = 0; i < in.rank(); ++i) {
    for (std::int64_t k = 0; k < dims[i]; ++k) offsets[i].push_back(k % in.dim(i) * strides[i]);
  }
  call.out(0, pick(in, offsets));
}

// One axis repeated `count` times (-1: unknown).
AbsTensor repeated_along(RangeCall& call, const AbsTensor& x, std::size_t axis, std::int64_t count) {
  const std::int64_t size = x.sizes[axis];
  if (count == 1) return x;
  if (count < 0 || size < 0) return selected(x, axis, -1, "", call.symbols());
  Dims sizes = x.sizes;
  sizes[axis] = size * count;
  if (size == 1) return broadcasted(x, sizes, call.symbols());
  if (x.blocks(axis) == 1 || count > 64) {
    const std::string step = select_step(x.rank() - axis, "mod" + std::to_string(size) + "," + std::to_string(count));
    return selected(x, axis, sizes[axis], step, call.symbols());
  }
  const std::vector<const AbsTensor*> parts(static_cast<std::size_t>(count), &x);
  return concatenated(parts, axis, sizes, call.max_cells(), &call.symbols());
}

void range_tile(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (settle_unmoved(call)) return;
  if (!x.ranked) return call.out(0, x.hull());
  const auto known = call.has_input(2) ? std::nullopt : call.ints(1);
  AbsTensor result = x;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    result = repeated_along(call, result, axis, known && known->size() == x.rank() ? (*known)[axis] : -1);
  }
  settle(call, 0, std::move(result));
}

// ---- gradients -------------------------------------------------------------

void transpose_gradient(BuildCall& call) {
  const std::vector<std::int64_t> perm = call.integers("perm");
  if (perm.empty()) return call.give(0, call.add("Transpose", {call.grad(0)}));
  std::vector<std::int64_t> back(perm.size());
  const std::vector<std::size_t> order = order_of(call, perm.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<std::int64_t>(i);
  call.give(0, transpose(call, call.grad(0), std::move(back)));
}

// The sum over the repeats, which have an axis of their own before each axis.
void tile_gradient(BuildCall& call) {
  if (call.has_input(2) || !call.in_type(0).ranked || call.in_type(1).dtype != DType::int64) {
    return movement_gradient(call);
  }
  const ValueId last = call.ints({-1});
  const ValueId repeats = call.add("Unsqueeze", {call.in(1), last});
  const ValueId sizes = call.add("Unsqueeze", {shape_vector(call, call.in(0)), last});
  const ValueId pairs = call.add("Concat", {repeats, sizes}, with_attr("axis", std::int64_t{1}));
  const ValueId apart =
      call.add("Reshape", {call.grad(0), reshape_to(call, pairs, {-1})}, with_attr("allowzero", std::int64_t{1}));
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < call.rank(call.in(0)); ++i) axes.push_back(static_cast<std::int64_t>(2 * i));
  if (axes.empty()) return call.give(0, call.grad(0));
  call.give(0, call.add("ReduceSum", {apart, call.ints(std::move(axes))}, with_attr("keepdims", std::int64_t{0})));
}

void same_gradient(BuildCall& call) { call.give(0, call.grad(0)); }

// The sum over the axes along which it was repeated, as far as the shapes tell which these are.
void expand_gradient(BuildCall& call) {
  const Type &wide = call.type(call.grad(0)), &narrow = call.in_type(0);
  bool told = wide.ranked && narrow.ranked;
  std::vector<std::int64_t> axes;
  const std::size_t extra = told ? wide.shape.size() - narrow.shape.size() : 0;
  for (std::size_t i = 0; told && i < wide.shape.size(); ++i) {
    if (i >= extra && surely_equal(wide.shape[i], narrow.shape[i - extra])) continue;
    told = i < extra || narrow.shape[i - extra].size == 1;
    axes.push_back(static_cast<std::int64_t>(i));
  }
  if (!told) return call.give(0, call.add("finity:SumTo", {call.grad(0), call.in(0)}));
  if (axes.empty()) return call.give(0, call.grad(0));
  const ValueId sums =
      call.add("ReduceSum", {call.grad(0), call.ints(std::move(axes))}, with_attr("keepdims", std::int64_t{0}));
  call.give(0, reshape_like(call, sums, call.in(0)));
}

const OpDef kOps[] = {
    {.identity = {.name = "Reshape",
                  .summary = "the same elements in another shape; 0 keeps a size, -1 takes what is left",
                  .signature = "(data: T, shape?: int64 since 5) -> (reshaped: T) where T: any",
                  .attrs = "allowzero: int = 0 since 14; shape: ints until 4; consumed_inputs: ints until 4",
                  .tf = "Reshape"},
     .meaning = {.infer = infer_reshape, .eval = eval_reshape},
     .analysis = {.range = range_reshape, .length = length_reshape, .vjp = reshape_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_reshape, .often = 1}},
    {.identity = {.name = "Flatten",
                  .summary = "a matrix: the axes before and from `axis` on become one each",
                  .signature = "(input: T) -> (output: T) where T: any",
                  .attrs = "axis: int = 1"},
     .meaning = {.infer = infer_flatten, .eval = eval_flatten},
     .analysis = {.range = range_reshape, .length = length_reshape, .vjp = reshape_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::moved},
     .drawing = {.often = 1}},
    {.identity = {.name = "Squeeze",
                  .summary = "without the given axes of size 1, or without all of them",
                  .signature = "(data: T, axes?: int64 since 13) -> (squeezed: T) where T: any",
                  .attrs = "axes: ints until 12",
                  .tf = "Squeeze"},
     .meaning = {.infer = infer_squeeze, .eval = eval_squeeze},
     .analysis = {.range = range_squeeze, .length = length_reshape, .vjp = reshape_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_squeeze, .often = 1}},
    {.identity = {.name = "Unsqueeze",
                  .summary = "with new axes of size 1",
                  .signature = "(data: T, axes?: int64 since 13) -> (expanded: T) where T: any",
                  .attrs = "axes: ints until 12",
                  .tf = "ExpandDims"},
     .meaning = {.infer = infer_unsqueeze, .eval = eval_unsqueeze},
     .analysis = {.range = range_unsqueeze, .length = length_reshape, .vjp = reshape_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::moved, .order = OrderKind::insert_axes},
     .drawing = {.operands = draw_unsqueeze, .often = 1}},
    {.identity = {.name = "Transpose",
                  .summary =
                      "axes in another order: axis i of the result is axis perm[i] of the input; reversed by default",
                  .signature = "(data: T) -> (transposed: T) where T: any",
                  .attrs = "perm: ints",
                  .tf = "Transpose"},
     .meaning = {.infer = infer_transpose, .eval = eval_transpose},
     .analysis = {.range = range_transpose, .length = length_transpose, .vjp = transpose_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::moved, .merge = Merge::movement},
     .drawing = {.often = 2}},
    {.identity = {.name = "Identity",
                  .summary = "its operand, a tensor, sequence or optional",
                  .signature = "(input: value) -> (output: value)",
                  .attrs = "consumed_inputs: ints until 5",
                  .tf = "Identity"},
     .meaning = {.infer = infer_identity, .eval = eval_identity},
     .analysis = {.range = range_same, .vjp = same_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved, .merge = Merge::movement},
     .drawing = {.often = 1}},
    {.identity = {.name = "Expand",
                  .since = 8,
                  .summary = "broadcast together with a shape",
                  .signature = "(input: T, shape: int64) -> (output: T) where T: any",
                  .tf = "BroadcastTo"},
     .meaning = {.infer = infer_expand, .eval = eval_expand},
     .analysis = {.range = range_expand, .vjp = expand_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_expand, .often = 1}},
    {.identity = {.name = "Tile",
                  .summary = "repeated along each axis",
                  .signature = "(input: T, repeats: int64 | float, axis?: int64 | float until 5) -> (output: T) where "
                               "T: any",
                  .tf = "Tile"},
     .meaning = {.infer = infer_tile, .eval = eval_tile},
     .analysis = {.range = range_tile, .vjp = tile_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_tile, .often = 1}},
};

}  // namespace

std::span<const OpDef> layout_ops() { return kOps; }

}  // namespace finity
