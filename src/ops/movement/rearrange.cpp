// Ops that permute elements in a pattern of their own.
#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "domain/row_bounds.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/lengths.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// ---- DepthToSpace, SpaceToDepth --------------------------------------------

std::int64_t block_size(const Call& call) {
  const std::int64_t block = call.integer("blocksize");
  if (block < 1 || block > (1 << 20)) throw Error("blocksize " + std::to_string(block));
  return block;
}

Dim divided(const Dim& dim, std::int64_t by, std::string_view what) {
  if (by == 1) return dim;
  if (!dim.known()) return steps_in(dim, by);
  if (dim.size % by != 0) {
    throw Error(std::string(what) + " " + std::to_string(dim.size) + " is not a multiple of " + std::to_string(by));
  }
  return Dim::of(dim.size / by);
}

Shape depth_to_space_shape(const Shape& in, std::int64_t block) {
  return {in[0], divided(in[1], block * block, "depth"), times(in[2], Dim::of(block)), times(in[3], Dim::of(block))};
}

Shape space_to_depth_shape(const Shape& in, std::int64_t block) {
  return {in[0], times(in[1], Dim::of(block * block)), divided(in[2], block, "height"), divided(in[3], block, "width")};
}

template <Shape (*Rule)(const Shape&, std::int64_t)>
void infer_blocks(InferCall& call) {
  require_rank(call, 0, 4);
  const Shape in = call.ranked(0) ? call.shape(0) : unknown_shape(4);
  call.set_shape(0, Rule(in, block_size(call)));
}

void eval_depth_to_space(EvalCall& call) {
  const Tensor& in = call.in(0);
  require_rank(in, "input", 4);
  const std::int64_t b = block_size(call);
  const Dims dims = sizes_of(depth_to_space_shape(shape_of(in), b));
  const std::int64_t n = in.dim(0), h = in.dim(2), w = in.dim(3);
  // The depth is [block row, block column, channel], or [channel, block row, block column] in mode CRD.
  const bool channel_first = call.text("mode") == "CRD";
  const Dims split = channel_first ? Dims{n, dims[1], b, b, h, w} : Dims{n, b, b, dims[1], h, w};
  const std::array<std::size_t, 6> order =
      channel_first ? std::array<std::size_t, 6>{0, 1, 4, 2, 5, 3} : std::array<std::size_t, 6>{0, 3, 4, 1, 5, 2};
  call.out(0, transposed(in.reshaped(split), order).reshaped(dims));
}

void eval_space_to_depth(EvalCall& call) {
  const Tensor& in = call.in(0);
  require_rank(in, "input", 4);
  const std::int64_t b = block_size(call);
  const Dims dims = sizes_of(space_to_depth_shape(shape_of(in), b));
  const Tensor split = in.reshaped({in.dim(0), in.dim(1), dims[2], b, dims[3], b});
  call.out(0, transposed(split, std::array<std::size_t, 6>{0, 3, 5, 1, 2, 4}).reshaped(dims));
}

bool known_sizes(const AbsTensor& x, const Type& type) {
  return x.ranked && x.rank() == 4 && std::ranges::find(x.sizes, -1) == x.sizes.end() && type.dims();
}

void range_depth_to_space(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::int64_t b = block_size(call);
  if (!known_sizes(x, call.out_type(0))) return call.out(0, x.hull());
  const Dims dims = *call.out_type(0).dims();
  const std::int64_t n = x.sizes[0], h = x.sizes[2], w = x.sizes[3];
  const bool channel_first = call.text("mode") == "CRD";
  const Dims split = channel_first ? Dims{n, dims[1], b, b, h, w} : Dims{n, b, b, dims[1], h, w};
  const std::array<std::size_t, 6> order =
      channel_first ? std::array<std::size_t, 6>{0, 1, 4, 2, 5, 3} : std::array<std::size_t, 6>{0, 3, 4, 1, 5, 2};
  Symbols& symbols = call.symbols();
  settle(call, 0, reshaped(transposed(reshaped(x, split, symbols), order, symbols), dims, symbols));
}

void range_space_to_depth(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::int64_t b = block_size(call);
  if (!known_sizes(x, call.out_type(0))) return call.out(0, x.hull());
  const Dims dims = *call.out_type(0).dims();
  constexpr std::array<std::size_t, 6> kOrder = {0, 3, 5, 1, 2, 4};
  Symbols& symbols = call.symbols();
  const AbsTensor split = reshaped(x, {x.sizes[0], x.sizes[1], dims[2], b, dims[3], b}, symbols);
  settle(call, 0, reshaped(transposed(split, kOrder, symbols), dims, symbols));
}

// ---- ReverseSequence -------------------------------------------------------

void infer_reverse_sequence(InferCall& call) {
  require_min_rank(call, 0, 2);
  infer_same_shape(call);
}

struct TimeBatch {
  std::size_t time = 0;
  std::size_t batch = 0;
};

TimeBatch time_batch(const Call& call, std::size_t rank) {
  if (rank < 2) throw Error("input has rank " + std::to_string(rank) + ", expected at least 2");
  const TimeBatch axes{.time = normalize_axis(call.integer("time_axis"), rank),
                       .batch = normalize_axis(call.integer("batch_axis"), rank)};
  if (axes.time == axes.batch || axes.time > 1 || axes.batch > 1) {
    throw Error("time_axis and batch_axis must be 0 and 1 or 1 and 0");
  }
  return axes;
}

void eval_reverse_sequence(EvalCall& call) {
  const Tensor& in = call.in(0);
  const TimeBatch axes = time_batch(call, in.rank());
  const std::vector<std::int64_t> lengths = elements<std::int64_t>(call.in(1));
  if (static_cast<std::int64_t>(lengths.size()) != in.dim(axes.batch)) {
    throw Error("sequence_lens has " + std::to_string(lengths.size()) + " elements for " +
                std::to_string(in.dim(axes.batch)) + " sequences");
  }
  const std::int64_t steps = in.dim(axes.time);
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > steps) throw Error("sequence_lens holds " + std::to_string(length));
  }
  require_computable(in.dims());
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  std::vector<std::int64_t> positions;
  for (IndexCounter at(in.dims()); at.valid(); at.next()) {
    const std::int64_t time = at.index()[axes.time];
    const std::int64_t length = lengths[static_cast<std::size_t>(at.index()[axes.batch])];
    const std::int64_t from = time < length ? length - 1 - time : time;
    positions.push_back(static_cast<std::int64_t>(positions.size()) + (from - time) * strides[axes.time]);
  }
  call.out(0, gather_elements(in, in.dims(), positions));
}

void range_reverse_sequence(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked) return call.out(0, x.hull());
  const std::size_t time = time_batch(call, x.rank()).time;
  settle(call, 0, selected(x, time, x.sizes[time], "", call.symbols()));
}

// ---- Trilu -----------------------------------------------------------------

void infer_trilu(InferCall& call) {
  require_min_rank(call, 0, 2);
  infer_same_shape(call);
}

void eval_trilu(EvalCall& call) {
  const Tensor& in = call.in(0);
  if (in.rank() < 2) throw Error("input has rank " + std::to_string(in.rank()) + ", expected at least 2");
  require_computable(in.dims());
  const bool upper = call.integer("upper") != 0;
  const std::int64_t k = call.has_input(1) ? element_as_int(call.in(1), 0) : 0;
  const std::int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(in.size()));
  for (std::int64_t at = 0; at < in.size(); ++at) {
    const std::int64_t diagonal = at % columns - at / columns % rows;
    const bool kept = upper ? diagonal >= k : diagonal <= k;
    positions[static_cast<std::size_t>(at)] = kept ? at : -1;
  }
  call.out(0, gather_elements(in, in.dims(), positions));
}

// What a block of the last two axes holds of the triangle.
enum class Part { all, some, none };

Part part_of_triangle(const AbsTensor& x, const std::vector<std::size_t>& place, std::int64_t k, bool upper) {
  const std::size_t row = x.rank() - 2, column = x.rank() - 1;
  if (x.sizes[row] < 0 || x.sizes[column] < 0) return Part::some;
  const std::int64_t top = x.block_start(row, place[row]), left = x.block_start(column, place[column]);
  const std::int64_t lowest = left - (top + x.block_length(row, place[row]) - 1);
  const std::int64_t highest = left + x.block_length(column, place[column]) - 1 - top;
  if (upper ? lowest >= k : highest <= k) return Part::all;
  return (upper ? highest < k : lowest > k) ? Part::none : Part::some;
}

// The first column belongs to a lower triangle from k = 0 on, and not to an upper one from k = 1 on: every row has an
// element that is kept, or a zero. Causal masks are made so.
void add_triangle_rows(const AbsTensor& x, const Range& zero, std::int64_t k, bool upper, AbsTensor& result) {
  if (k < (upper ? 1 : 0) || !result.ranked || result.rank() > 32) return;
  add_row_element(result, std::uint32_t{1} << (result.rank() - 1), upper ? zero : x.hull());
}

void range_trilu(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const Range zero =
      point(is_float(x.dtype) ? round_to(x.dtype, 0) : 0);  // of a format without zero: its smallest number
  const auto k = call.has_input(1) ? call.ints(1) : std::vector<std::int64_t>{0};
  if (!x.ranked || x.rank() < 2) return call.out(0, join(x.hull(), zero));
  const bool upper = call.integer("upper") != 0;
  AbsTensor result = map_cells(x, x.dtype, [](const Range& cell) { return cell; });
  std::vector<Form> forms(x.cells.size());
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) {
    const bool known = k && k->size() == 1;
    const Part part = known ? part_of_triangle(x, cell_place(x, cell), k->front(), upper) : Part::some;
    if (part == Part::all) forms[cell] = cell_form(x, cell);
    else if (part == Part::none) result.cells[cell] = zero;
    else result.cells[cell] = join(x.cells[cell], zero);
  }
  if (std::ranges::any_of(forms, &Form::valid)) result.forms = std::move(forms);
  settle(call, 0, std::move(result));
  if (k && k->size() == 1 && call.has_output(0)) add_triangle_rows(x, zero, k->front(), upper, call.outs()[0]);
}

// ---- gradients -------------------------------------------------------------

void depth_to_space_gradient(BuildCall& call) {
  if (call.text("mode") != "DCR") return movement_gradient(call);
  call.give(0, call.add("SpaceToDepth", {call.grad(0)}, with_attr("blocksize", block_size(call))));
}

void space_to_depth_gradient(BuildCall& call) {
  call.give(0, call.add("DepthToSpace", {call.grad(0)}, with_attr("blocksize", block_size(call))));
}

// Ops that undo themselves, or keep what they kept: the same on what arrives.
void same_op_gradient(BuildCall& call) {
  std::vector<ValueId> inputs = call.inputs();
  inputs[0] = call.grad(0);
  call.give(0, call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front());
}

// ---- drawing ---------------------------------------------------------------

bool draw_trilu(DrawCall& call) {
  if (call.chance(60)) call.add(Tensor::scalar(call.between(-3, 3)), 80);
  return true;
}

// Lengths of nothing and of the whole axis, too.
bool draw_reverse_sequence(DrawCall& call) {
  if (call.rank() < 2) return false;
  const std::int64_t time = call.between(0, 1);
  call.attrs().set("time_axis", time);
  call.attrs().set("batch_axis", 1 - time);
  DrawCall::Ints lengths(static_cast<std::size_t>(call.length(1 - time)));
  for (std::int64_t& length : lengths) length = call.between(0, call.length(time));
  call.add_ints(lengths);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "DepthToSpace",
                  .summary = "blocks of channels become blocks of pixels",
                  .signature = "(input: T) -> (output: T) where T: any",
                  .attrs = "blocksize: int; mode: string = DCR {DCR, CRD} since 11",
                  .tf = "DepthToSpace"},
     .meaning = {.infer = infer_blocks<depth_to_space_shape>, .eval = eval_depth_to_space},
     .analysis = {.range = range_depth_to_space, .length = length_reshape, .vjp = depth_to_space_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.first = FirstOperand::image}},
    {.identity = {.name = "SpaceToDepth",
                  .summary = "blocks of pixels become channels",
                  .signature = "(input: T) -> (output: T) where T: any",
                  .attrs = "blocksize: int",
                  .tf = "SpaceToDepth"},
     .meaning = {.infer = infer_blocks<space_to_depth_shape>, .eval = eval_space_to_depth},
     .analysis = {.range = range_space_to_depth, .length = length_reshape, .vjp = space_to_depth_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.first = FirstOperand::image}},
    {.identity = {.name = "ReverseSequence",
                  .since = 10,
                  .summary = "the first sequence_lens[i] steps of sequence i in reverse",
                  .signature = "(input: T, sequence_lens: int64) -> (Y: T) where T: any",
                  .attrs = "time_axis: int = 0; batch_axis: int = 1",
                  .tf = "ReverseSequence"},
     .meaning = {.infer = infer_reverse_sequence, .eval = eval_reverse_sequence},
     .analysis = {.range = range_reverse_sequence, .vjp = same_op_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_reverse_sequence}},
    {.identity = {.name = "Trilu",
                  .since = 14,
                  .summary = "upper or lower triangle of each matrix, zero elsewhere",
                  .signature = "(input: T, k?: int64) -> (output: T) where T: any",
                  .attrs = "upper: int = 1"},
     .meaning = {.infer = infer_trilu, .eval = eval_trilu},
     .analysis = {.range = range_trilu, .vjp = same_op_gradient},
     .traits = {.exact = true, .elements = ElementSource::bounded},
     .drawing = {.operands = draw_trilu}},
};

}  // namespace

std::span<const OpDef> rearrange_ops() { return kOps; }

}  // namespace finity
