// Shapes as numbers, and movement of whole axes: reshaping, transposing, joining, splitting, repeating.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "formats/tensorflow/emit.h"
#include "formats/tensorflow/importer.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostPieces = 1 << 16;

// ---- shapes as numbers -----------------------------------------------------

DType out_type(const TfCall& call) {
  const DType wanted = call.dtype("out_type");
  return wanted == DType::undefined ? DType::int32 : wanted;
}

void lower_shape(TfCall& call) { call.give(call.cast(Emit(call).shape(call.in(0)), out_type(call))); }

void lower_shape_n(TfCall& call) {
  Emit emit(call);
  for (std::size_t i = 0; i < call.input_count(); ++i)
    call.give(i, emit.cast(emit.shape(call.in(static_cast<int>(i))), out_type(call)));
}

void lower_size(TfCall& call) { call.give(call.cast(call.add("Size", {call.in(0)}), out_type(call))); }

void lower_rank(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0);
  if (emit.ranked(x)) return call.give(emit.number(static_cast<double>(emit.rank(x)), DType::int32));
  call.give(emit.cast(emit.add("Size", {emit.shape(x)}), DType::int32));
}

void lower_broadcast_args(TfCall& call) {
  Emit emit(call);
  const ValueId a = emit.filled(call.in(0), 0, DType::uint8), b = emit.filled(call.in(1), 0, DType::uint8);
  call.give(emit.cast(emit.shape(emit.sum(a, b)), call.dtype_of(call.in(0))));
}

void lower_broadcast_gradient_args(TfCall& call) {
  call.give_all(call.add_all("finity:BroadcastGradientArgs", {call.in(0), call.in(1)}, 2));
}

// Where each of the tensors that are joined begins: sums of the sizes before it, along one axis.
void lower_concat_offset(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = emit.need_ints(call.in(0), "the axis").at(0);
  const std::int64_t rank = emit.size(call.in(1), 0);
  if (rank < 0) throw Unsupported("the number of axes is not known");
  std::vector<double> mask(static_cast<std::size_t>(rank), 0);
  if (axis >= rank || axis < -rank) throw Unsupported("the axis is outside the shapes");
  mask[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = 1;
  const DType dtype = call.dtype_of(call.in(1));
  const ValueId along = call.constant(from_elements<double>(dtype, {rank}, mask));
  ValueId offset = emit.product(along, emit.number(0, dtype));
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    call.give(i - 1, i == 1 ? emit.add("Identity", {offset}) : offset);
    offset = emit.sum(offset, emit.product(along, call.in(static_cast<int>(i))));
  }
}

// ---- filling ---------------------------------------------------------------

void lower_fill(TfCall& call) { call.give(Emit(call).expand(call.in(1), call.in(0))); }

template <int kValue>
void lower_like(TfCall& call) {
  Emit emit(call);
  call.give(emit.filled(emit.shape(call.in(0)), kValue, call.dtype_of(call.in(0))));
}

void lower_range(TfCall& call) { call.give(call.add("Range", call.tensors(0, 3))); }

// start + i (stop - start) / (count - 1)
void lower_lin_space(TfCall& call) {
  Emit emit(call);
  const ValueId start = call.in(0), count = emit.int64(call.in(2));
  const DType dtype = call.dtype_of(start);
  const ValueId steps = emit.add("Max", {emit.difference(count, emit.whole(1)), emit.whole(1)});
  const ValueId step = emit.quotient(emit.difference(call.in(1), start), emit.cast(steps, dtype));
  call.give(emit.sum(start, emit.product(step, emit.cast(emit.positions(count), dtype))));
}

// ---- axes ------------------------------------------------------------------

// Sizes that are not known have a name from here on: what is computed of the result has the same ones.
void lower_reshape(TfCall& call) {
  const ValueId reshaped = Emit(call).reshape(call.in(0), call.in(1));
  call.importer().writer().declare(reshaped, call.declared(0));
  call.importer().writer().name_sizes(reshaped);
  call.give(reshaped);
}

void lower_expand_dims(TfCall& call) {
  Emit emit(call);
  call.give(emit.unsqueeze(call.in(0), {emit.need_ints(call.in(1), "the axis").at(0)}));
}

void lower_squeeze(TfCall& call) {
  Emit emit(call);
  std::vector<std::int64_t> axes = call.integers("squeeze_dims");
  if (axes.empty()) axes = call.integers("axis");
  call.give(axes.empty() ? emit.add("Squeeze", {call.in(0)}) : emit.squeeze(call.in(0), axes));
}

// The products of the sizes behind each axis.
ValueId strides_of(Emit& emit, ValueId sizes, std::int64_t rank) {
  std::vector<ValueId> strides;
  for (std::int64_t axis = 1; axis <= rank; ++axis) {
    strides.push_back(emit.unsqueeze(emit.reduce_all("ReduceProd", emit.slice(sizes, 0, axis, rank)), {0}));
  }
  return emit.concat(strides, 0);
}

// An order of axes that is computed: every element is fetched from where it lies.
void lower_computed_transpose(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), order = emit.int64(call.in(1));
  const std::int64_t rank = emit.size(order, 0);
  if (rank < 1) throw Unsupported("the order of axes is not a constant");
  const ValueId sizes = emit.shape(x), wanted = emit.gather(sizes, order, 0);
  const ValueId places = emit.unsqueeze(emit.positions(emit.add("Size", {x})), {1});
  const ValueId digits = emit.add("Mod", {emit.quotient(places, strides_of(emit, wanted, rank)), wanted});
  const ValueId weighted = emit.product(digits, emit.gather(strides_of(emit, sizes, rank), order, 0));
  const ValueId from = emit.reduce("ReduceSum", weighted, {1}, false);
  call.give(emit.reshape(emit.gather(emit.vector(x), from, 0), wanted));
}

// n - 1 - [0, 1, ..., n - 1], as an order that nobody gave is written when the number of axes is not known.
bool reverses_axes(TfCall& call, ValueId order) {
  const Graph& graph = call.importer().writer().graph();
  const auto inputs_of = [&](ValueId id, std::string_view op) {
    const NodeId producer = graph.value(id).producer;
    const Node* node = producer.valid() ? &graph.node(producer) : nullptr;
    return node != nullptr && node->op_type == op ? node->inputs : std::vector<ValueId>{};
  };
  const auto is = [&](ValueId id, std::int64_t number) { return call.known_ints(id) == std::vector{number}; };
  const std::vector<ValueId> difference = inputs_of(order, "Sub");
  if (difference.size() != 2) return false;
  const std::vector<ValueId> last = inputs_of(difference[0], "Sub"), all = inputs_of(difference[1], "Range");
  return last.size() == 2 && all.size() == 3 && is(last[1], 1) && is(all[0], 0) && is(all[2], 1) && last[0] == all[1];
}

void lower_transpose(TfCall& call) {
  Emit emit(call);
  if (reverses_axes(call, call.in(1))) return call.give(emit.add("Transpose", {call.in(0)}));
  if (!call.known_ints(call.in(1))) return lower_computed_transpose(call);
  std::vector<std::int64_t> order = emit.need_ints(call.in(1), "the order of axes");
  for (std::int64_t& axis : order) axis += axis < 0 ? static_cast<std::int64_t>(order.size()) : 0;
  call.give(emit.add("Transpose", {call.in(0)}, {{"perm", order}}));
}

void lower_invert_permutation(TfCall& call) {
  Emit emit(call);
  const ValueId order = call.in(0);
  const DType dtype = call.dtype_of(order);
  if (const auto known = call.known_ints(order)) {
    std::vector<std::int64_t> inverse(known->size(), -1);
    for (std::size_t i = 0; i < known->size(); ++i) {
      const std::int64_t to = (*known)[i];
      if (to < 0 || to >= static_cast<std::int64_t>(inverse.size())) throw Unsupported("it is no permutation");
      inverse[static_cast<std::size_t>(to)] = static_cast<std::int64_t>(i);
    }
    const Dims dims = {static_cast<std::int64_t>(inverse.size())};
    return call.give(call.constant(from_elements<std::int64_t>(dtype, dims, inverse)));
  }
  const ValueId positions = emit.cast(emit.positions(emit.add("Size", {order})), dtype);
  call.give(emit.add("ScatterElements", {positions, emit.int64(order), positions}, {{"axis", 0}}));
}

// ---- joining and splitting -------------------------------------------------

ValueId joined(TfCall& call, std::vector<ValueId> parts, ValueId axis) {
  Emit emit(call);
  const std::int64_t along = emit.need_ints(axis, "the axis").at(0);
  return parts.size() == 1 ? emit.add("Identity", {parts[0]}) : emit.concat(std::move(parts), along);
}

void lower_concat_v2(TfCall& call) { call.give(joined(call, call.tensors(0, call.input_count() - 1), call.in(-1))); }
void lower_concat(TfCall& call) { call.give(joined(call, call.tensors(1, call.input_count() - 1), call.in(0))); }

void lower_pack(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = call.integer("axis", 0);
  std::vector<ValueId> parts;
  for (const ValueId part : call.tensors(0, call.input_count())) parts.push_back(emit.unsqueeze(part, {axis}));
  call.give(emit.concat(std::move(parts), axis));
}

// Pieces that somebody uses, of as many as the node says.
void lower_unpack(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = call.integer("axis", 0), count = call.integer("num");
  if (count < static_cast<std::int64_t>(call.output_count())) throw Unsupported("more pieces are used than there are");
  for (std::size_t i = 0; i < call.output_count(); ++i)
    call.give(i, emit.gather(call.in(0), emit.whole(static_cast<std::int64_t>(i)), axis));
}

void lower_split(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = emit.need_ints(call.in(0), "the axis").at(0), count = call.integer("num_split");
  if (count < 1 || count > kMostPieces) throw Unsupported("it splits into " + std::to_string(count) + " pieces");
  if (count == 1) return call.give(emit.add("Identity", {call.in(1)}));
  call.give_all(
      call.add_all("Split", {call.in(1)}, static_cast<std::size_t>(count), {{"axis", axis}, {"num_outputs", count}}));
}

// One size may be -1: what the others leave.
void lower_split_v(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = emit.need_ints(call.in(2), "the axis").at(0);
  std::vector<std::int64_t> sizes = emit.need_ints(call.in(1), "the list of sizes");
  if (sizes.size() == 1) return call.give(emit.add("Identity", {call.in(0)}));
  ValueId list = emit.ints(sizes);
  if (const auto open = std::ranges::find(sizes, -1); open != sizes.end()) {
    const std::int64_t others = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1});
    const ValueId rest = emit.difference(emit.vector(emit.dim(call.in(0), axis)), emit.ints({others}));
    list = emit.concat({emit.ints({sizes.begin(), open}), rest, emit.ints({open + 1, sizes.end()})}, 0);
  }
  call.give_all(call.add_all("Split", {call.in(0), list}, sizes.size(), {{"axis", axis}}));
}

// ---- repeating and reversing -----------------------------------------------

void lower_tile(TfCall& call) { call.give(call.add("Tile", {call.in(0), Emit(call).int64(call.in(1))})); }

void lower_broadcast_to(TfCall& call) { call.give(Emit(call).expand(call.in(0), call.in(1))); }

void lower_reverse(TfCall& call) {
  Emit emit(call);
  const std::vector<std::int64_t> axes = emit.need_ints(call.in(1), "the list of axes");
  if (axes.empty()) return call.give(emit.add("Identity", {call.in(0)}));
  const std::size_t count = axes.size();
  call.give(emit.add("Slice", {call.in(0), emit.ints(std::vector<std::int64_t>(count, -1)),
                               emit.ints(std::vector<std::int64_t>(count, -kEnd)), emit.ints(axes),
                               emit.ints(std::vector<std::int64_t>(count, -1))}));
}

void lower_reverse_sequence(TfCall& call) {
  const std::int64_t time = call.integer("seq_dim"), batch = call.integer("batch_dim", 0);
  if (time < 0 || time > 1 || batch < 0 || batch > 1)
    throw Unsupported("sequences along other axes than the first two are not modelled");
  call.give(call.add("ReverseSequence", {call.in(0), Emit(call).int64(call.in(1))},
                     {{"time_axis", time}, {"batch_axis", batch}}));
}

// Rolled forward: the last `shift` elements come first.
void lower_roll(TfCall& call) {
  Emit emit(call);
  const std::vector<std::int64_t> shifts = emit.need_ints(call.in(1), "the shift");
  const std::vector<std::int64_t> axes = emit.need_ints(call.in(2), "the axis");
  ValueId x = call.in(0);
  for (std::size_t i = 0; i < axes.size() && i < shifts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + call.rank(x) : axes[i]);
    const std::int64_t size = emit.size(x, axis);
    if (size <= 0) throw Unsupported("the size along the axis is not known");
    const std::int64_t shift = ((shifts[i] % size) + size) % size;
    const auto along = static_cast<std::int64_t>(axis);
    if (shift != 0)
      x = emit.concat({emit.slice(x, along, size - shift, kEnd), emit.slice(x, along, 0, size - shift)}, along);
  }
  call.give(emit.add("Identity", {x}));
}

constexpr Lowering kShape[] = {
    {.op = "BroadcastArgs", .lower = lower_broadcast_args},
    {.op = "BroadcastGradientArgs", .lower = lower_broadcast_gradient_args},
    {.op = "BroadcastTo", .lower = lower_broadcast_to},
    {.op = "Concat", .lower = lower_concat},
    {.op = "ConcatOffset", .lower = lower_concat_offset},
    {.op = "ConcatV2", .lower = lower_concat_v2},
    {.op = "ExpandDims", .lower = lower_expand_dims},
    {.op = "Fill", .lower = lower_fill},
    {.op = "InvertPermutation", .lower = lower_invert_permutation},
    {.op = "LinSpace", .lower = lower_lin_space},
    {.op = "OnesLike", .lower = lower_like<1>},
    {.op = "Pack", .lower = lower_pack},
    {.op = "Range", .lower = lower_range},
    {.op = "Rank", .lower = lower_rank},
    {.op = "Reshape", .lower = lower_reshape},
    {.op = "ReverseSequence", .lower = lower_reverse_sequence},
    {.op = "ReverseV2", .lower = lower_reverse},
    {.op = "Roll", .lower = lower_roll},
    {.op = "Shape", .lower = lower_shape},
    {.op = "ShapeN", .lower = lower_shape_n},
    {.op = "Size", .lower = lower_size},
    {.op = "Split", .lower = lower_split},
    {.op = "SplitV", .lower = lower_split_v},
    {.op = "Squeeze", .lower = lower_squeeze},
    {.op = "Tile", .lower = lower_tile},
    {.op = "Transpose", .lower = lower_transpose},
    {.op = "Unpack", .lower = lower_unpack},
    {.op = "ZerosLike", .lower = lower_like<0>},
};

}  // namespace

std::span<const Lowering> shape_lowerings() { return kShape; }

}  // namespace finity::tensorflow
