// Batch normalization with its statistics and gradient, and the cell of a fused LSTM.
#include "formats/tensorflow/channels.h"

namespace finity::tensorflow {

namespace {

// ---- batch normalization ---------------------------------------------------

std::size_t spatial_axes(const TfCall& call) { return call.text("data_format", "NHWC").size() == 5 ? 3 : 2; }

// All axes but the channel's.
std::vector<std::int64_t> other_axes(const Layout& layout) {
  std::vector<std::int64_t> axes = counted(layout.spatial + 2);
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(layout.channel()));
  return axes;
}

// How many elements a channel has.
ValueId channel_count(Emit& emit, const Layout& layout, ValueId x) {
  return emit.reduce_all("ReduceProd", emit.gather(emit.shape(x), emit.ints(other_axes(layout)), 0));
}

// n / (n - 1), and 1 for a single element: what makes the variance of a sample that of a population.
ValueId sample_factor(Emit& emit, const Layout& layout, ValueId x, DType dtype) {
  const ValueId count = channel_count(emit, layout, x);
  const ValueId less = emit.add("Max", {emit.difference(count, emit.whole(1)), emit.whole(1)});
  return emit.quotient(emit.cast(count, dtype), emit.cast(less, dtype));
}

// Part `factor` of the batch's statistics and the rest of the running ones.
ValueId averaged(Emit& emit, ValueId running, ValueId batch, double factor) {
  if (factor == 1) return batch;
  return emit.sum(emit.product(emit.number_like(1 - factor, running), running),
                  emit.product(emit.number_like(factor, batch), batch));
}

// Results: y, mean and variance to keep, and what the gradient wants again (of the CPU kernel: mean and variance).
void give_trained(TfCall& call, const Layout& layout, float epsilon) {
  Emit emit(call);
  const ValueId scale = call.in(1);
  const ValueId zeros = emit.zeros_like(scale), ones = emit.filled(emit.shape(scale), 1, call.dtype_of(scale));
  const std::vector<ValueId> all =
      call.add_all("BatchNormalization", {channels_second(emit, layout, call.in(0)), scale, call.in(2), zeros, ones}, 3,
                   {{"epsilon", epsilon}, {"momentum", 0.0F}, {"training_mode", 1}});
  call.give(0, channels_back(emit, layout, all[0]));
  if (call.output_count() < 2) return;
  const double factor = call.real("exponential_avg_factor", 1);
  call.give(1, averaged(emit, call.in(3), all[1], factor));
  if (call.output_count() < 3) return;
  const ValueId sample = emit.product(all[2], sample_factor(emit, layout, call.in(0), call.dtype_of(all[2])));
  call.give(2, averaged(emit, call.in(4), sample, factor));
  call.give(3, all[1]);
  call.give(4, all[2]);
  call.give(5, emit.filled(emit.ints({0}), 0, call.dtype_of(all[2])));
}

void lower_batch_norm(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, spatial_axes(call));
  const auto epsilon = static_cast<float>(call.real("epsilon", 0.0001));
  if (call.flag("is_training", true)) return give_trained(call, layout, epsilon);
  const ValueId y = emit.add(
      "BatchNormalization", {channels_second(emit, layout, call.in(0)), call.in(1), call.in(2), call.in(3), call.in(4)},
      {{"epsilon", epsilon}});
  call.give(0, channels_back(emit, layout, y));
  for (std::size_t i = 1; i < call.output_count() && i < 5; ++i) call.give(i, call.in(i % 2 == 1 ? 3 : 4));
  if (call.output_count() > 5) call.give(5, emit.filled(emit.ints({0}), 0, call.dtype_of(call.in(3))));
}

// (y_backprop, x, scale, mean, variance); results for x, scale and offset. In training the mean and the variance
// depend on x too.
void lower_batch_norm_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, spatial_axes(call));
  const DType dtype = call.dtype_of(call.in(2)), given = call.dtype_of(call.in(0));
  const ValueId gradient = emit.cast(call.in(0), dtype), x = emit.cast(call.in(1), dtype);
  const auto spread = [&](ValueId numbers) { return per_channel(emit, layout, numbers); };
  const ValueId epsilon = emit.number(call.real("epsilon", 0.0001), dtype);
  const ValueId inverse = emit.add("finity:Rsqrt", {emit.sum(call.in(4), epsilon)});
  const ValueId centred = emit.difference(x, spread(call.in(3)));
  const ValueId with_centred = emit.product(gradient, centred);
  const ValueId factor = spread(emit.product(call.in(2), inverse));
  ValueId inner = gradient;
  if (call.flag("is_training", true)) {
    const auto mean = [&](ValueId numbers) { return emit.reduce("ReduceMean", numbers, other_axes(layout), true); };
    const ValueId squared = spread(emit.product(inverse, inverse));
    const ValueId along = emit.product(emit.product(centred, squared), mean(with_centred));
    inner = emit.difference(emit.difference(gradient, mean(gradient)), along);
  }
  call.give(0, emit.cast(emit.product(factor, inner), given));
  if (call.output_count() < 2) return;
  call.give(1, emit.product(emit.reduce("ReduceSum", with_centred, other_axes(layout), false), inverse));
  call.give(2, emit.reduce("ReduceSum", gradient, other_axes(layout), false));
  for (std::size_t i = 3; i < call.output_count(); ++i) call.give(i, emit.filled(emit.ints({0}), 0, dtype));
}

// ---- LSTM cell -------------------------------------------------------------

// Gates in the order i, ci, f, o along the columns of the weights.
void lower_lstm_cell(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), state = call.in(1), hidden = call.in(2);
  const bool peephole = call.flag("use_peephole", false);
  const double clip = call.real("cell_clip", 3);
  const ValueId product = emit.add("MatMul", {emit.concat({x, hidden}, 1), call.in(3)});
  const std::vector<ValueId> gates =
      call.add_all("Split", {emit.sum(product, call.in(7))}, 4, {{"axis", 1}, {"num_outputs", 4}});
  const auto opened = [&](ValueId gate, ValueId cell, int weights) {
    return emit.add("Sigmoid", {peephole ? emit.sum(gate, emit.product(cell, call.in(weights))) : gate});
  };
  const ValueId biased = emit.sum(gates[2], emit.number_like(call.real("forget_bias", 1), x));
  const ValueId in = opened(gates[0], state, 4), forget = opened(biased, state, 5);
  const ValueId candidate = emit.add("Tanh", {gates[1]});
  ValueId next = emit.sum(emit.product(candidate, in), emit.product(state, forget));
  if (clip > 0) next = emit.add("Clip", {next, emit.number_like(-clip, x), emit.number_like(clip, x)});
  const ValueId out = opened(gates[3], next, 6);
  const ValueId squashed = emit.add("Tanh", {next});
  call.give_all({in, next, forget, out, candidate, squashed, emit.product(squashed, out)});
}

// (x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad); results for the state before, the
// four gates and the peepholes.
void lower_lstm_cell_grad(TfCall& call) {
  Emit emit(call);
  const bool peephole = call.flag("use_peephole", false);
  const ValueId before = call.in(1), in = call.in(8), forget = call.in(10), out = call.in(11), candidate = call.in(12),
                squashed = call.in(13), hidden_gradient = call.in(15);
  const ValueId one = emit.number_like(1, before);
  const auto gate_slope = [&](ValueId gate) { return emit.product(gate, emit.difference(one, gate)); };
  const auto tanh_slope = [&](ValueId y) { return emit.difference(one, emit.product(y, y)); };
  const ValueId d_out = emit.product(gate_slope(out), emit.product(hidden_gradient, squashed));
  ValueId d_state = emit.sum(emit.product(tanh_slope(squashed), emit.product(hidden_gradient, out)), call.in(14));
  if (peephole) d_state = emit.sum(d_state, emit.product(d_out, call.in(6)));
  const ValueId d_candidate = emit.product(tanh_slope(candidate), emit.product(d_state, in));
  const ValueId d_forget = emit.product(gate_slope(forget), emit.product(d_state, before));
  const ValueId d_in = emit.product(gate_slope(in), emit.product(d_state, candidate));
  ValueId d_before = emit.product(d_state, forget);
  if (peephole)
    d_before = emit.sum(d_before, emit.sum(emit.product(d_in, call.in(4)), emit.product(d_forget, call.in(5))));
  call.give(0, d_before);
  call.give(1, emit.concat({d_in, d_candidate, d_forget, d_out}, 1));
  const auto peephole_gradient = [&](ValueId gate, ValueId cell, int weights) {
    if (!peephole) return emit.zeros_like(call.in(weights));
    return emit.reduce("ReduceSum", emit.product(gate, cell), {0}, false);
  };
  call.give(2, peephole_gradient(d_in, before, 4));
  call.give(3, peephole_gradient(d_forget, before, 5));
  call.give(4, peephole_gradient(d_out, call.in(9), 6));
}

constexpr Lowering kNorm[] = {
    {.op = "FusedBatchNorm", .lower = lower_batch_norm},
    {.op = "FusedBatchNormGrad", .lower = lower_batch_norm_grad},
    {.op = "FusedBatchNormGradV2", .lower = lower_batch_norm_grad},
    {.op = "FusedBatchNormGradV3", .lower = lower_batch_norm_grad},
    {.op = "FusedBatchNormV2", .lower = lower_batch_norm},
    {.op = "FusedBatchNormV3", .lower = lower_batch_norm},
    {.op = "LSTMBlockCell", .lower = lower_lstm_cell},
    {.op = "LSTMBlockCellGrad", .lower = lower_lstm_cell_grad},
};

}  // namespace

std::span<const Lowering> norm_lowerings() { return kNorm; }

}  // namespace finity::tensorflow
