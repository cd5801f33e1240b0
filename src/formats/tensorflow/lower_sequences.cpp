// Ops whose results are known in their kind but not in their numbers: recurrent layers whose weights lie in a layout of
// their library, searches for texts, distances between texts, sets. What decides the numbers comes from outside, one
// input per result, named after the node; what holds of every such result is written behind it.
#include <algorithm>
#include <limits>

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

// From -1 to 1, whatever comes from outside.
ValueId share(TfCall& call, std::size_t result, Type type) {
  return Emit(call).add("Clip", {call.outside(result, type), call.scalar(-1, type.dtype), call.scalar(1, type.dtype)});
}
ValueId largest(Emit& emit, ValueId x) { return emit.reduce_all("ReduceMax", emit.add("Abs", {x})); }
ValueId at_least_zero(Emit& emit, ValueId x) { return emit.add("Max", {x, emit.number_like(0, x)}); }
// How many steps a sequence has at most, as a float.
ValueId steps(Emit& emit, ValueId sequence, std::int64_t axis, DType dtype) {
  return emit.cast(emit.dim(sequence, axis), dtype);
}

// ---- recurrent layers of cuDNN -------------------------------------------------------------------------------------

// Beyond 1 in magnitude only as far as the state it starts from: what a cell gives is a mean of that and of tangents.
// Rounding may add to a mean in each step, and twice the sum of all steps is more than it adds in a million.
ValueId state_limit(TfCall& call, const std::string& mode) {
  Emit emit(call);
  const DType dtype = call.dtype_of(call.in(0));
  const ValueId one = emit.number(1, dtype);
  if (mode != "gru") return one;
  return emit.product(emit.number(2, dtype), emit.add("Max", {largest(emit, call.in(1)), one}));
}

// (input [steps, batch, features], input_h [layers * directions, batch, units], input_c, params)
void lower_cudnn(TfCall& call) {
  Emit emit(call);
  const std::string mode = call.text("rnn_mode", "lstm");
  if (mode == "rnn_relu") throw Unsupported("nothing bounds a recurrent layer of relu");
  if (call.integer("num_proj", 0) > 0) throw Unsupported("its outputs are projected by weights that are not known");
  const Type input = call.in_type(0), state = call.in_type(1);  // copies: nodes are added
  Type output = Type::tensor(input.dtype, Shape(3));
  if (input.ranked && input.shape.size() == 3) output.shape = {input.shape[0], input.shape[1], Dim{}};
  const std::int64_t directions = call.text("direction", "unidirectional") == "bidirectional" ? 2 : 1;
  if (state.ranked && state.shape.size() == 3 && state.shape[2].known()) {
    output.shape[2] = Dim::of(state.shape[2].size * directions);
  }
  const ValueId limit = state_limit(call, mode);
  call.give(0, emit.product(share(call, 0, output), limit));
  call.give(1, emit.product(share(call, 1, state), limit));
  if (mode != "lstm") return;
  // A cell grows by at most one in each step.
  const bool time_major = call.flag("time_major", true);
  const ValueId grown = emit.sum(largest(emit, call.in(2)), steps(emit, call.in(0), time_major ? 0 : 1, input.dtype));
  call.give(2, emit.product(share(call, 2, call.in_type(2)), emit.product(emit.number(2, input.dtype), grown)));
}

// (input, input_h, input_c, params, ...): a gradient for each.
void lower_cudnn_backprop(TfCall& call) {
  for (std::size_t i = 0; i < 4; ++i) call.give(i, call.outside(i, call.in_type(static_cast<int>(i))));
}

// ---- a layer of LSTM as one op --------------------------------------------------------------------------------------

// (seq_len_max, x [steps, batch, features], cs_prev [batch, units], h_prev, w, ...): for every step the input gate, the
// cell, the other gates, what goes into the cell, its tangent and the state; zero behind the longest sequence.
void lower_block_lstm(TfCall& call) {
  Emit emit(call);
  const Type sequence = call.in_type(1), state = call.in_type(2);  // copies: nodes are added
  Type type = Type::tensor(sequence.dtype, Shape(3));
  if (sequence.ranked && sequence.shape.size() == 3) type.shape = {sequence.shape[0], sequence.shape[1], Dim{}};
  if (state.ranked && state.shape.size() == 2) type.shape[2] = state.shape[1];
  constexpr std::size_t kCell = 1, kFirstTangent = 4, kResults = 7;
  for (std::size_t i = 0; i < std::min(kResults, call.output_count()); ++i) {
    const ValueId part = share(call, i, type);
    if (i != kCell) {
      call.give(i, i < kFirstTangent ? at_least_zero(emit, part) : part);
      continue;
    }
    // It is clipped, or grows by at most one in each step.
    const double clip = call.real("cell_clip", call.op() == "BlockLSTM" ? 3 : 0);
    const ValueId grown = emit.sum(largest(emit, call.in(2)), steps(emit, call.in(1), 0, sequence.dtype));
    const ValueId limit =
        clip > 0 ? emit.number(clip, sequence.dtype) : emit.product(emit.number(2, sequence.dtype), grown);
    call.give(i, emit.product(part, limit));
  }
}

// ---- texts ---------------------------------------------------------------------------------------------------------

// Where the letters of decoded texts stand, the letters, and the shape of all of them.
void give_texts(TfCall& call, std::size_t paths, std::size_t path) {
  Emit emit(call);
  const ValueId scores = call.in(0);  // steps, batch, classes
  const ValueId zero = emit.whole(0), one = emit.whole(1);
  const ValueId ends = emit.concat({emit.shape_part(scores, 1, 2), emit.shape_part(scores, 0, 1)}, 0);
  const ValueId places = call.outside(path, Type::tensor(DType::int64, {Dim{}, Dim::of(2)}));
  call.give(path, emit.add("Min", {emit.add("Max", {places, zero}), emit.difference(ends, one)}));
  // The last class means "nothing".
  const ValueId letters = call.outside(paths + path, Type::tensor(DType::int64, Shape(1)));
  const ValueId last = emit.difference(emit.dim(scores, 2), emit.whole(2));
  call.give(paths + path, emit.add("Min", {emit.add("Max", {letters, zero}), last}));
  const ValueId sizes = call.outside(2 * paths + path, Type::tensor(DType::int64, {Dim::of(2)}));
  call.give(2 * paths + path, emit.add("Min", {emit.add("Max", {sizes, zero}), ends}));
}

Type per_text(TfCall& call, std::int64_t paths) {
  const Type& scores = call.in_type(0);
  Type type = Type::tensor(scores.dtype, {Dim{}, Dim::of(paths)});
  if (scores.ranked && scores.shape.size() == 3 && scores.shape[1].known()) type.shape[0] = scores.shape[1];
  return type;
}

void lower_beam_search(TfCall& call) {
  Emit emit(call);
  const std::int64_t paths = call.integer("top_paths", 1);
  if (paths < 1 || paths > 1000) throw Unsupported("it is asked for " + std::to_string(paths) + " paths");
  const auto count = static_cast<std::size_t>(paths);
  for (std::size_t path = 0; path < count; ++path) give_texts(call, count, path);
  // Logarithms of probabilities, above 0 by a rounding at most.
  const ValueId logs = call.outside(3 * count, per_text(call, paths));
  call.give(3 * count, emit.add("Min", {logs, emit.number_like(1e-3, logs)}));
}

// The sum of the largest scores of all steps, with its sign changed.
void lower_greedy_search(TfCall& call) {
  Emit emit(call);
  give_texts(call, 1, 0);
  const ValueId scores = call.in(0);
  const ValueId most = emit.product(largest(emit, scores), steps(emit, scores, 0, emit.dtype(scores)));
  call.give(3, emit.product(share(call, 3, per_text(call, 1)), emit.product(emit.number_like(2, most), most)));
}

// (indices, values, shape) of what was said, then of what is true. At most as many changes as the longer one has
// letters; as a share of the true one's length, which may be 0: then the kernel says infinite.
void lower_edit_distance(TfCall& call) {
  Emit emit(call);
  const ValueId said = call.in(2), meant = call.in(5);
  Type type = call.declared(0);
  type.kind = Type::Kind::tensor;
  type.dtype = DType::float32;
  if (const std::int64_t rank = emit.size(said, 0); !type.ranked && rank >= 1) {
    type = Type::tensor(DType::float32, Shape(static_cast<std::size_t>(rank - 1)));
  }
  const ValueId length = emit.add("Max", {emit.slice(said, 0, -1, std::numeric_limits<std::int64_t>::max()),
                                          emit.slice(meant, 0, -1, std::numeric_limits<std::int64_t>::max())});
  const ValueId part = share(call, 0, type);
  const ValueId distance = emit.product(at_least_zero(emit, part), emit.cast(emit.scalar(length), DType::float32));
  if (!call.flag("normalize", true)) return call.give(distance);
  const ValueId infinite = emit.number(std::numeric_limits<double>::infinity(), DType::float32);
  call.give(emit.where(emit.add("Less", {part, emit.number_like(0, part)}), infinite, distance));
}

// ---- sets ----------------------------------------------------------------------------------------------------------

// (set1, set2): rows of elements of both, as a sparse tensor.
void lower_set_operation(TfCall& call) {
  Emit emit(call);
  const ValueId a = call.in(0), b = call.in(1);
  const std::int64_t rank = call.rank(a);
  const ValueId places = call.outside(0, Type::tensor(DType::int64, {Dim{}, Dim::of(rank)}));
  call.give(0, at_least_zero(emit, places));
  const ValueId most = emit.add("Max", {emit.reduce_all("ReduceMax", a), emit.reduce_all("ReduceMax", b)});
  const ValueId least = emit.add("Min", {emit.reduce_all("ReduceMin", a), emit.reduce_all("ReduceMin", b)});
  const ValueId chosen = call.outside(1, Type::tensor(call.dtype_of(a), Shape(1)));
  call.give(1, emit.add("Max", {emit.add("Min", {chosen, most}), least}));
  call.give(2, at_least_zero(emit, call.outside(2, Type::tensor(DType::int64, {Dim::of(rank)}))));
}

// ---- crossed columns -----------------------------------------------------------------------------------------------

// Hashes of texts and numbers taken together, as a sparse matrix; a text gives no numbers.
void lower_sparse_cross(TfCall& call) {
  Emit emit(call);
  call.give(0, at_least_zero(emit, call.outside(0, Type::tensor(DType::int64, {Dim{}, Dim::of(2)}))));
  if (call.dtype("out_type") == DType::int64) {
    ValueId values = at_least_zero(emit, call.outside(1, Type::tensor(DType::int64, Shape(1))));
    const std::int64_t buckets = call.integer("num_buckets", 0);
    if (buckets > 0) values = emit.add("Min", {values, emit.whole(buckets - 1)});
    call.give(1, values);
  }
  call.give(2, at_least_zero(emit, call.outside(2, Type::tensor(DType::int64, {Dim::of(2)}))));
}

constexpr Lowering kSequences[] = {
    {.op = "BlockLSTM", .lower = lower_block_lstm},
    {.op = "BlockLSTMV2", .lower = lower_block_lstm},
    {.op = "CTCBeamSearchDecoder", .lower = lower_beam_search},
    {.op = "CTCGreedyDecoder", .lower = lower_greedy_search},
    {.op = "CudnnRNN", .lower = lower_cudnn},
    {.op = "CudnnRNNV2", .lower = lower_cudnn},
    {.op = "CudnnRNNV3", .lower = lower_cudnn},
    {.op = "CudnnRNNBackprop", .lower = lower_cudnn_backprop},
    {.op = "CudnnRNNBackpropV2", .lower = lower_cudnn_backprop},
    {.op = "CudnnRNNBackpropV3", .lower = lower_cudnn_backprop},
    {.op = "DenseToDenseSetOperation", .lower = lower_set_operation},
    {.op = "EditDistance", .lower = lower_edit_distance},
    {.op = "SparseCross", .lower = lower_sparse_cross},
};

}  // namespace

std::span<const Lowering> sequence_lowerings() { return kSequences; }

}  // namespace finity::tensorflow
