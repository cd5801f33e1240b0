// Parts of tensors: slices, paddings, blocks moved between space, batch and depth, diagonals and bands.
#include <algorithm>
#include <limits>

#include "formats/tensorflow/channels.h"
#include "formats/tensorflow/strided_slice.h"

namespace finity::tensorflow {

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// ---- slices ----------------------------------------------------------------

// A size of -1 reaches to the end. Sizes that are known are said even where the begin is not.
void lower_slice(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), begin = emit.int64(call.in(1)), size = emit.int64(call.in(2));
  const auto sizes = call.known_ints(size);
  const std::int64_t rank = emit.size(begin, 0) >= 0 ? emit.size(begin, 0) : emit.size(size, 0);
  const ValueId axes = rank >= 0 ? emit.ints(counted(static_cast<std::size_t>(rank))) : ValueId{};
  const bool all_sizes = sizes && std::ranges::none_of(*sizes, [](std::int64_t each) { return each < 0; });
  ValueId end = emit.sum(begin, size);
  if (!all_sizes) end = emit.where(emit.add("Less", {size, emit.whole(0)}), emit.whole(kEnd), end);
  const ValueId part = emit.add("Slice", {x, begin, end, axes});
  call.give(all_sizes && !call.dims(part) ? emit.reshape(part, *sizes) : part);
}

void lower_strided_slice(TfCall& call) {
  call.give(strided_slice(call, call.in(0), call.in(1), call.in(2), call.in(3)));
}

// (shape, begin, end, strides, dy)
void lower_strided_slice_grad(TfCall& call) {
  const ValueId zeros = Emit(call).filled(call.in(0), 0, call.dtype_of(call.in(4)));
  call.give(with_slice_replaced(call, zeros, call.in(1), call.in(2), call.in(3), call.in(4)));
}

// (ref, begin, end, strides, value)
void lower_strided_slice_assign(TfCall& call) {
  call.give(with_slice_replaced(call, call.in(0), call.in(1), call.in(2), call.in(3), call.in(4)));
}

// ---- padding ---------------------------------------------------------------

// [axes, 2] as all begins, then all ends.
ValueId pads_of(Emit& emit, ValueId paddings) { return emit.vector(emit.transpose(emit.int64(paddings), {1, 0})); }

void lower_pad(TfCall& call) {
  Emit emit(call);
  const ValueId value = call.input_count() > 2 ? call.in(2) : ValueId{};
  call.give(emit.add("Pad", {call.in(0), pads_of(emit, call.in(1)), value}, {{"mode", "constant"}}));
}

// With the border itself repeated.
ValueId mirrored(Emit& emit, ValueId x, const std::vector<std::int64_t>& paddings) {
  for (std::size_t i = 0; 2 * i + 1 < paddings.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const std::int64_t before = paddings[2 * i], after = paddings[2 * i + 1];
    if (before == 0 && after == 0) continue;
    std::vector<ValueId> parts;
    if (before > 0) parts.push_back(emit.slice(x, axis, before - 1, -kEnd, -1));
    parts.push_back(x);
    if (after > 0) parts.push_back(emit.slice(x, axis, -1, -after - 1, -1));
    x = emit.concat(parts, axis);
  }
  return x;
}

void lower_mirror_pad(TfCall& call) {
  Emit emit(call);
  if (call.text("mode", "REFLECT") == "REFLECT")
    return call.give(emit.add("Pad", {call.in(0), pads_of(emit, call.in(1))}, {{"mode", "reflect"}}));
  const ValueId padded = mirrored(emit, call.in(0), emit.need_ints(call.in(1), "the padding"));
  call.give(emit.add("Identity", {padded}));
}

// Each border is added, reversed, to the elements it was copied from.
void lower_mirror_pad_grad(TfCall& call) {
  Emit emit(call);
  const std::int64_t offset = call.text("mode", "REFLECT") == "REFLECT" ? 1 : 0;
  const std::vector<std::int64_t> paddings = emit.need_ints(call.in(1), "the padding");
  ValueId x = call.in(0);
  for (std::size_t i = 0; 2 * i + 1 < paddings.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const std::int64_t before = paddings[2 * i], after = paddings[2 * i + 1], size = emit.size(x, i);
    if (before == 0 && after == 0) continue;
    if (size < 0) throw Unsupported("the size along a padded axis is not known");
    const std::int64_t inner = size - before - after;
    const auto placed = [&](ValueId border, std::int64_t at, std::int64_t length) {
      return emit.add("Pad", {border, emit.ints({at, inner - at - length}), ValueId{}, emit.ints({axis})});
    };
    ValueId result = emit.slice(x, axis, before, before + inner);
    if (before > 0) result = emit.sum(result, placed(emit.slice(x, axis, before - 1, -kEnd, -1), offset, before));
    if (after > 0)
      result = emit.sum(result, placed(emit.slice(x, axis, -1, -after - 1, -1), inner - offset - after, after));
    x = result;
  }
  call.give(emit.add("Identity", {x}));
}

// ---- blocks ----------------------------------------------------------------

// The size along an axis as a vector of one number.
ValueId size_at(Emit& emit, ValueId x, std::size_t axis) {
  const auto at = static_cast<std::int64_t>(axis);
  return emit.shape_part(x, at, at + 1);
}

ValueId space_to_batch(Emit& emit, ValueId x, const std::vector<std::int64_t>& blocks, ValueId paddings) {
  const std::size_t count = blocks.size(), rank = emit.rank(x);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 1; i <= count; ++i) axes.push_back(static_cast<std::int64_t>(i));
  const ValueId padded = emit.add("Pad", {x, pads_of(emit, paddings), ValueId{}, emit.ints(axes)});
  const ValueId rest = emit.shape_part(x, static_cast<std::int64_t>(count) + 1, kEnd);
  std::vector<ValueId> split = {size_at(emit, x, 0)}, final = {emit.ints({-1})};
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    const ValueId blocks_along = emit.quotient(size_at(emit, padded, i + 1), emit.ints({blocks[i]}));
    split.push_back(blocks_along);
    split.push_back(emit.ints({blocks[i]}));
    final.push_back(blocks_along);
    order.push_back(static_cast<std::int64_t>(2 * i + 2));
  }
  order.push_back(0);
  for (std::size_t i = 0; i < count; ++i) order.push_back(static_cast<std::int64_t>(2 * i + 1));
  for (std::size_t i = count + 1; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i + count));
  split.push_back(rest);
  final.push_back(rest);
  return emit.reshape(emit.transpose(emit.reshape(padded, emit.concat(split, 0)), order), emit.concat(final, 0));
}

ValueId batch_to_space(Emit& emit, ValueId x, const std::vector<std::int64_t>& blocks, ValueId crops) {
  const std::size_t count = blocks.size(), rank = emit.rank(x);
  std::int64_t all = 1;
  for (const std::int64_t block : blocks) all *= block;
  const ValueId batch = emit.quotient(size_at(emit, x, 0), emit.ints({all}));
  const ValueId rest = emit.shape_part(x, static_cast<std::int64_t>(count) + 1, kEnd);
  std::vector<ValueId> split = {emit.ints(blocks), batch}, final = {batch};
  std::vector<std::int64_t> order = {static_cast<std::int64_t>(count)}, axes;
  for (std::size_t i = 0; i < count; ++i) {
    split.push_back(size_at(emit, x, i + 1));
    final.push_back(emit.product(size_at(emit, x, i + 1), emit.ints({blocks[i]})));
    order.push_back(static_cast<std::int64_t>(count + 1 + i));
    order.push_back(static_cast<std::int64_t>(i));
    axes.push_back(static_cast<std::int64_t>(i + 1));
  }
  for (std::size_t i = count + 1; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i + count));
  split.push_back(rest);
  final.push_back(rest);
  const ValueId whole =
      emit.reshape(emit.transpose(emit.reshape(x, emit.concat(split, 0)), order), emit.concat(final, 0));
  const ValueId begins = emit.vector(emit.slice(emit.int64(crops), 1, 0, 1));
  const ValueId cut = emit.vector(emit.slice(emit.int64(crops), 1, 1, 2));
  const ValueId ends = emit.difference(emit.shape_part(whole, 1, static_cast<std::int64_t>(count) + 1), cut);
  return emit.add("Slice", {whole, begins, ends, emit.ints(axes)});
}

std::vector<std::int64_t> blocks_of(TfCall& call, bool listed) {
  if (!listed) return {call.integer("block_size"), call.integer("block_size")};
  std::vector<std::int64_t> blocks = Emit(call).need_ints(call.in(1), "the block shape");
  if (std::ranges::any_of(blocks, [](std::int64_t block) { return block < 1; }))
    throw Unsupported("a block has no size");
  return blocks;
}

template <bool kListed>
void lower_space_to_batch(TfCall& call) {
  Emit emit(call);
  call.give(space_to_batch(emit, call.in(0), blocks_of(call, kListed), call.in(-1)));
}

template <bool kListed>
void lower_batch_to_space(TfCall& call) {
  Emit emit(call);
  call.give(batch_to_space(emit, call.in(0), blocks_of(call, kListed), call.in(-1)));
}

template <OpName Op>
void lower_depth(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, 2);
  const ValueId moved =
      emit.add(Op.letters, {channels_second(emit, layout, call.in(0))}, {{"blocksize", call.integer("block_size")}});
  call.give(channels_back(emit, layout, moved));
}

// ---- bands and diagonals ---------------------------------------------------

void lower_band_part(TfCall& call) {
  Emit emit(call);
  const std::int64_t lower = emit.need_ints(call.in(1), "num_lower").at(0);
  const std::int64_t upper = emit.need_ints(call.in(2), "num_upper").at(0);
  ValueId x = call.in(0);
  if (lower >= 0) x = emit.add("Trilu", {x, emit.whole(-lower)}, {{"upper", 1}});
  if (upper >= 0) x = emit.add("Trilu", {x, emit.whole(upper)}, {{"upper", 0}});
  call.give(emit.add("Identity", {x}));
}

// True on the diagonal of [count, count].
ValueId on_diagonal(Emit& emit, ValueId count) {
  const ValueId positions = emit.positions(count);
  return emit.add("Equal", {emit.unsqueeze(positions, {0}), emit.unsqueeze(positions, {1})});
}

// MatrixDiagV2 and V3 say besides which diagonal, and the size of the matrix.
void lower_diagonal(TfCall& call) {
  Emit emit(call);
  for (int i = 1; i < static_cast<int>(call.input_count()); ++i) {
    const double plain = i == 1 || i == 4 ? 0 : -1;
    if (emit.need_number(call.in(i), "the shape of the matrix") != plain)
      throw Unsupported("other diagonals than the main one are not modelled");
  }
  const ValueId numbers = call.in(0);
  const ValueId mask = on_diagonal(emit, emit.dim(numbers, -1));
  call.give(emit.where(mask, emit.unsqueeze(numbers, {-2}), emit.number_like(0, numbers)));
}

// Every (columns + 1)-th element of a matrix laid out as a row.
void lower_diagonal_part(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0);
  const std::size_t rank = emit.rank(x);
  if (rank < 2) throw Unsupported("a matrix is expected");
  if (call.input_count() > 1 && emit.need_number(call.in(1), "the diagonal") != 0)
    throw Unsupported("other diagonals than the main one are not modelled");
  const ValueId rows = emit.dim(x, -2), columns = emit.dim(x, -1);
  const ValueId count = emit.add("Min", {rows, columns});
  const ValueId at = emit.product(emit.positions(count), emit.sum(columns, emit.whole(1)));
  const ValueId flat =
      emit.reshape(x, emit.concat({emit.shape_part(x, 0, static_cast<std::int64_t>(rank) - 2), emit.ints({-1})}, 0));
  call.give(emit.gather(flat, at, -1));
}

void lower_plain_diagonal(TfCall& call) {
  if (Emit(call).rank(call.in(0)) != 1) throw Unsupported("diagonals of more than a vector are not modelled");
  lower_diagonal(call);
}

void lower_plain_diagonal_part(TfCall& call) {
  if (Emit(call).rank(call.in(0)) != 2) throw Unsupported("diagonals of more than a matrix are not modelled");
  lower_diagonal_part(call);
}

void lower_set_diagonal(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0);
  const ValueId row = emit.unsqueeze(emit.positions(emit.dim(x, -2)), {1});
  const ValueId column = emit.unsqueeze(emit.positions(emit.dim(x, -1)), {0});
  if (emit.size(x, emit.rank(x) - 1) != emit.size(x, emit.rank(x) - 2) || emit.size(x, emit.rank(x) - 1) < 0)
    throw Unsupported("the matrix is not known to be square");
  call.give(emit.where(emit.add("Equal", {row, column}), emit.unsqueeze(call.in(1), {-2}), x));
}

constexpr Lowering kSlice[] = {
    {.op = "BatchToSpace", .lower = lower_batch_to_space<false>},
    {.op = "BatchToSpaceND", .lower = lower_batch_to_space<true>},
    {.op = "DepthToSpace", .lower = lower_depth<"DepthToSpace">},
    {.op = "Diag", .lower = lower_plain_diagonal},
    {.op = "DiagPart", .lower = lower_plain_diagonal_part},
    {.op = "MatrixBandPart", .lower = lower_band_part},
    {.op = "MatrixDiag", .lower = lower_diagonal},
    {.op = "MatrixDiagPart", .lower = lower_diagonal_part},
    {.op = "MatrixDiagPartV2", .lower = lower_diagonal_part},
    {.op = "MatrixDiagPartV3", .lower = lower_diagonal_part},
    {.op = "MatrixDiagV2", .lower = lower_diagonal},
    {.op = "MatrixDiagV3", .lower = lower_diagonal},
    {.op = "MatrixSetDiag", .lower = lower_set_diagonal},
    {.op = "MirrorPad", .lower = lower_mirror_pad},
    {.op = "MirrorPadGrad", .lower = lower_mirror_pad_grad},
    {.op = "Pad", .lower = lower_pad},
    {.op = "PadV2", .lower = lower_pad},
    {.op = "ResourceStridedSliceAssign", .lower = lower_strided_slice_assign},
    {.op = "Slice", .lower = lower_slice},
    {.op = "SpaceToBatch", .lower = lower_space_to_batch<false>},
    {.op = "SpaceToBatchND", .lower = lower_space_to_batch<true>},
    {.op = "SpaceToDepth", .lower = lower_depth<"SpaceToDepth">},
    {.op = "StridedSlice", .lower = lower_strided_slice},
    {.op = "StridedSliceAssign", .lower = lower_strided_slice_assign},
    {.op = "StridedSliceGrad", .lower = lower_strided_slice_grad},
};

}  // namespace

std::span<const Lowering> slice_lowerings() { return kSlice; }

}  // namespace finity::tensorflow
