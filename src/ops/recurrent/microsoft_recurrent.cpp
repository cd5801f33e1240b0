// ONNX Runtime's LSTM with weights of 8 bits. The input and the state are quantised
// when it runs, each with one scale, before they are multiplied by the weights.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/shared/delegate.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr OtherOp kLstm{.name = "LSTM", .version = 7};

// (X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point)
enum Input : std::size_t { x, w, r, bias, lengths, first_h, first_c, peepholes, w_scale, w_zero, r_scale, r_zero };

std::int64_t direction_count(const Call& call) { return call.text("direction") == "bidirectional" ? 2 : 1; }

void infer_quantized_lstm(InferCall& call) {
  for (const std::size_t input : {x, w, r, first_h, first_c}) require_rank(call, input, 3);
  const Dim directions = Dim::of(direction_count(call));
  const Dim time = call.ranked(x) ? call.shape(x)[0] : Dim{};
  const Dim batch = call.ranked(x) ? call.shape(x)[1] : Dim{};
  Dim hidden = call.ranked(r) ? call.shape(r)[1] : Dim{};
  if (call.integer("hidden_size", 0) > 0) hidden = Dim::of(call.integer("hidden_size"));
  call.set_shape(0, {time, directions, batch, hidden});
  call.set_shape(1, {directions, batch, hidden});
  call.set_shape(2, {directions, batch, hidden});
}

// ---- evaluation ------------------------------------------------------------------

const Tensor& only(const std::vector<Datum>& results, std::size_t i = 0) {
  const Tensor* tensor = i < results.size() ? results[i].tensor() : nullptr;
  if (tensor == nullptr) throw Error("a step gave no tensor");
  return *tensor;
}

// [directions, inputs, 4 hidden] of 8 bits as LSTM wants it: [directions, 4 hidden, inputs] of floats.
Tensor dequantized(EvalCall& call, std::size_t weights, std::size_t scale, std::size_t zero) {
  const Tensor& q = call.in(weights);
  require_rank(q, "the weights", 3);
  const std::vector<double> values = elements<double>(q), scales = elements<double>(call.in(scale)),
                            zeros = elements<double>(call.in(zero));
  const auto directions = static_cast<std::size_t>(q.dim(0)), columns = static_cast<std::size_t>(q.dim(2));
  const std::size_t rows = static_cast<std::size_t>(q.dim(1));
  // One scale per direction, or one per direction and column.
  const auto at = [&](const std::vector<double>& list, std::size_t d, std::size_t column) {
    if (list.size() != directions && list.size() != directions * columns) throw Error("scales of another size");
    return list.size() == directions ? list[d] : list[d * columns + column];
  };
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t column = i % columns, row = i / columns % rows, d = i / columns / rows;
    result[(d * columns + column) * rows + row] = (values[i] - at(zeros, d, column)) * at(scales, d, column);
  }
  return from_elements<double>(DType::float32, {q.dim(0), q.dim(2), q.dim(1)}, result);
}

// As 8 bits see it: one scale and one zero point for all.
Tensor in_8_bits(EvalCall& call, const Tensor& tensor) {
  if (tensor.empty()) return tensor;
  const std::vector<Datum> q = eval_other(call, {"DynamicQuantizeLinear", 11}, {}, {tensor}, 3);
  return only(eval_other(call, {"DequantizeLinear", 13}, {}, {q[0], q[1], q[2]}));
}

// Slice i of the first axis, which stays.
Tensor slice_at(const Tensor& tensor, std::int64_t i) {
  Dims dims = tensor.dims();
  if (dims.empty() || i >= dims[0]) throw Error("an operand is of other directions");
  const std::int64_t size = tensor.size() / dims[0];
  dims[0] = 1;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(size));
  for (std::int64_t k = 0; k < size; ++k) positions[static_cast<std::size_t>(k)] = i * size + k;
  return gather_elements(tensor, dims, positions);
}

Datum slice_of(const EvalCall& call, std::size_t input, std::int64_t i) {
  return call.has_input(input) ? Datum(slice_at(call.in(input), i)) : Datum{};
}

// The attributes of one direction: three activations each.
Attrs step_attrs(const Call& call, std::int64_t direction) {
  Attrs attrs;
  for (const auto& [name, value] : call.attrs()) {
    if (name != "direction" && name != "activations") attrs.set(name, value);
  }
  const std::vector<std::string> names = call.texts("activations");
  const bool lists = call.has_attr("activation_alpha") || call.has_attr("activation_beta");
  if (lists && direction_count(call) > 1) throw Unsupported("activation_alpha of two directions");
  if (names.empty()) return attrs;
  if (names.size() != static_cast<std::size_t>(3 * direction_count(call))) throw Error("activations of another number");
  const auto first = names.begin() + 3 * direction;
  attrs.set("activations", std::vector<std::string>(first, first + 3));
  return attrs;
}

struct Run {
  std::vector<Tensor> h;  // per step of the sequence
  Tensor last_h, last_c;
};

Run run_direction(EvalCall& call, const Tensor& input, const Tensor& weights, const Tensor& recurrence,
                  std::int64_t d) {
  const std::int64_t time = input.dim(0);
  const Dims state = {1, input.dim(1), recurrence.dim(2)};
  const bool backwards = call.text("direction") == "reverse" || d == 1;
  const Attrs attrs = step_attrs(call, d);
  const Datum given_h = slice_of(call, first_h, d), given_c = slice_of(call, first_c, d);
  Run run{std::vector<Tensor>(static_cast<std::size_t>(time)),
          given_h.present() ? *given_h.tensor() : Tensor(DType::float32, state),
          given_c.present() ? *given_c.tensor() : Tensor(DType::float32, state)};
  for (std::int64_t step = 0; step < time; ++step) {
    const std::int64_t t = backwards ? time - 1 - step : step;
    // The state only enters the gates through its product with the weights.
    const std::vector<Datum> results =
        eval_other(call, kLstm, attrs,
                   {slice_at(input, t), slice_at(weights, d), slice_at(recurrence, d), slice_of(call, bias, d), Datum{},
                    in_8_bits(call, run.last_h), run.last_c, slice_of(call, peepholes, d)},
                   3);
    run.last_h = only(results, 1);
    run.last_c = only(results, 2);
    run.h[static_cast<std::size_t>(t)] = run.last_h;
  }
  return run;
}

void put(const Tensor& from, std::int64_t at, std::vector<double>& to) {
  const std::vector<double> values = elements<double>(from);
  std::ranges::copy(values, to.begin() + at);
}

void eval_quantized_lstm(EvalCall& call) {
  if (call.has_input(lengths)) throw Unsupported("sequence_lens");
  require_rank(call.in(x), "input X", 3);
  const Tensor input = in_8_bits(call, call.in(x));
  const Tensor weights = dequantized(call, w, w_scale, w_zero), recurrence = dequantized(call, r, r_scale, r_zero);
  const std::int64_t time = input.dim(0), directions = direction_count(call), size = input.dim(1) * recurrence.dim(2);
  if (weights.dim(0) != directions || recurrence.dim(0) != directions) throw Error("W or R is of other directions");
  std::vector<double> y(static_cast<std::size_t>(time * directions * size)),
      h(static_cast<std::size_t>(directions * size)), c(h.size());
  for (std::int64_t d = 0; d < directions; ++d) {
    const Run run = run_direction(call, input, weights, recurrence, d);
    for (std::int64_t t = 0; t < time; ++t) put(run.h[static_cast<std::size_t>(t)], (t * directions + d) * size, y);
    put(run.last_h, d * size, h);
    put(run.last_c, d * size, c);
  }
  const Dims state = {directions, input.dim(1), recurrence.dim(2)};
  call.out(0, from_elements<double>(DType::float32, {time, directions, state[1], state[2]}, y));
  call.out(1, from_elements<double>(DType::float32, state, h));
  call.out(2, from_elements<double>(DType::float32, state, c));
}

// ---- ranges ----------------------------------------------------------------------

// Weights of either sign, as large as scale and zero point allow, times what the quantised state may be larger.
std::optional<AbsTensor> weight_range(const RangeCall& call, std::size_t weights, std::size_t scale, std::size_t zero,
                                      double growth) {
  const Range q = call.hull(weights), z = call.hull(zero), s = call.hull(scale);
  const double limit = std::max(std::abs(q.hi - z.lo), std::abs(q.lo - z.hi)) * s.magnitude() * growth;
  const Range range = from_bounds(DType::float32, -limit, limit, 2);
  if (!range.is_finite() || !s.is_finite()) return std::nullopt;
  Dims sizes(3, -1);
  const AbsTensor& own = call.in(weights);
  if (own.ranked && own.rank() == 3) sizes = {own.sizes[0], own.sizes[2], own.sizes[1]};
  return uniform(DType::float32, std::move(sizes), range);
}

// Quantised numbers are off by half a step of 255 at most, rounding aside; where there is no range for the scale
// nothing is known.
void range_quantized_lstm(RangeCall& call) {
  constexpr double kSteps = 1.0 / 128;
  const Range given = call.hull(x);
  const auto weights = weight_range(call, w, w_scale, w_zero, 1 + kSteps);
  const auto recurrence = weight_range(call, r, r_scale, r_zero, 1 + 2 * kSteps);
  const double lo = std::min(given.lo, 0.0), hi = std::max(given.hi, 0.0), slack = (hi - lo) * kSteps;
  const Range seen = from_bounds(DType::float32, lo - slack, hi + slack, 1);
  if (!given.is_finite() || !seen.is_finite() || !(hi - lo <= max_finite(DType::float32)) || !weights || !recurrence) {
    for (std::size_t i = 0; i < call.output_count(); ++i) call.top(i);
    return;
  }
  std::vector<std::optional<AbsTensor>> inputs(peepholes + 1);
  inputs[x] = uniform(call.in_type(x), seen);
  inputs[w] = weights;
  inputs[r] = recurrence;
  for (const std::size_t i : {bias, lengths, first_h, first_c, peepholes}) {
    if (call.has_range(i)) inputs[i] = call.in(i);
  }
  range_as(call, kLstm, call.attrs(), inputs);
}

const OpDef kOps[] = {
    {.identity =
         {.name = "DynamicQuantizeLSTM",
          .domain = "com.microsoft",
          .summary = "LSTM with weights of 8 bits, input and state quantised as it runs",
          .signature =
              "(X: float32, W: int8|uint8, R: int8|uint8, B?: float32, sequence_lens?: int32, initial_h?: float32, "
              "initial_c?: float32, P?: float32, W_scale: float32, W_zero_point: int8|uint8, R_scale: float32, "
              "R_zero_point: int8|uint8) -> (Y?: float32, Y_h?: float32, Y_c?: float32)",
          .attrs =
              "activation_alpha: floats; activation_beta: floats; activations: strings; clip: float; "
              "direction: string = forward {forward, reverse, bidirectional}; hidden_size: int; input_forget: int = 0"},
     .meaning = {.infer = infer_quantized_lstm,
                 .eval = eval_quantized_lstm,
                 .freedom = "X is quantised as a whole, the state at every step; sequence_lens cannot be evaluated"},
     .analysis = {.range = range_quantized_lstm, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> microsoft_recurrent_ops() { return kOps; }

}  // namespace finity
