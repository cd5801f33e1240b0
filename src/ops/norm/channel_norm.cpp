// Normalisations per channel or along one axis: batch, instance, mean-variance, Lp, local response.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ops/norm/norm_attrs.h"
#include "ops/norm/norm_gradient.h"
#include "ops/norm/norm_range.h"
#include "ops/reduce/reduced_axes.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

template <class A>
A normalized(A x, const Moments<A>& at, A epsilon, A scale, A bias) {
  return (x - at.mean) / std::sqrt(at.variance + epsilon) * scale + bias;
}

void check_size(const Tensor& parameter, std::string_view name, std::int64_t wanted) {
  if (parameter.size() == wanted) return;
  throw Error(std::string(name) + " has shape " + to_string(parameter.dims()) + ", expected " + std::to_string(wanted) +
              " elements");
}

// ---- BatchNormalization ----------------------------------------------------

bool wants_statistics(const Call& call) {
  return call.has_output(1) || call.has_output(2) || call.has_output(3) || call.has_output(4);
}

// x as [N, features, inner]: a feature is a channel, or every position of it when not spatial. A vector has one
// channel.
AxisView features_of(const Call& call, const Tensor& x) {
  if (x.rank() == 0) throw Error("X is a scalar, expected rank 1 or more");
  if (x.rank() == 1) return AxisView(Dims{x.dim(0), 1}, 1);
  AxisView view(x.dims(), 1);
  if (!batch_is_spatial(call)) {
    view.length *= view.inner;
    view.inner = 1;
  }
  return view;
}

template <class A>
std::vector<Moments<A>> batch_moments(const std::vector<A>& x, const AxisView& view) {
  std::vector<Moments<A>> result;
  for (std::int64_t f = 0; f < view.length; ++f) {
    const auto get = [&](std::int64_t j) { return x[view.at(j / view.inner, f, j % view.inner)]; };
    result.push_back(moments<A>(view.outer * view.inner, get));
  }
  return result;
}

template <class A>
std::vector<Moments<A>> given_moments(const EvalCall& call) {
  const std::vector<A> means = elements<A>(call.in(3));
  const std::vector<A> variances = elements<A>(call.in(4));
  std::vector<Moments<A>> result(means.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = {means[i], variances[i]};
  return result;
}

template <class A>
Tensor apply_moments(const EvalCall& call, const std::vector<A>& x, const AxisView& view,
                     const std::vector<Moments<A>>& at) {
  const std::vector<A> scales = elements<A>(call.in(1));
  const std::vector<A> biases = elements<A>(call.in(2));
  const A epsilon = static_cast<A>(call.real("epsilon"));
  std::vector<A> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t f = i / static_cast<std::size_t>(view.inner) % static_cast<std::size_t>(view.length);
    y[i] = normalized(x[i], at[f], epsilon, scales[f], biases[f]);
  }
  return from_elements(call.in(0).dtype(), call.in(0).dims(), y);
}

// Running statistics are input * momentum + batch * (1 - momentum); up to opset 13 the batch's own follow.
template <class A>
void put_statistics(EvalCall& call, const std::vector<Moments<A>>& running, const std::vector<Moments<A>>& batch) {
  const A momentum = static_cast<A>(call.real("momentum"));
  std::vector<A> columns[4];
  for (std::size_t f = 0; f < batch.size(); ++f) {
    columns[0].push_back(running[f].mean * momentum + batch[f].mean * (1 - momentum));
    columns[1].push_back(running[f].variance * momentum + batch[f].variance * (1 - momentum));
    columns[2].push_back(batch[f].mean);
    columns[3].push_back(batch[f].variance);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    call.out(i + 1, from_elements(call.in(3).dtype(), call.in(3).dims(), columns[i]));
  }
}

void eval_batch_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  const AxisView view = features_of(call, x);
  bool wide = x.dtype() == DType::float64;
  for (std::size_t i = 1; i < 5; ++i) {
    check_size(call.in(i), signature_of(call.op()).inputs[i].name, view.length);
    wide = wide || call.in(i).dtype() == DType::float64;
  }
  with_float_sum_type(wide ? DType::float64 : DType::float32, [&]<class A>() {
    const std::vector<A> values = elements<A>(x);
    const std::vector<Moments<A>> given = given_moments<A>(call);
    if (!batch_trains(call)) {
      call.out(0, apply_moments(call, values, view, given));
      return;
    }
    const std::vector<Moments<A>> batch = batch_moments(values, view);
    call.out(0, apply_moments(call, values, view, batch));
    put_statistics(call, given, batch);
  });
}

void infer_batch_norm(InferCall& call) {
  if (call.version() >= 14 && wants_statistics(call) && !batch_trains(call)) {
    throw Error("has outputs for statistics, which needs training_mode = 1");
  }
  require_min_rank(call, 0, 1);
  infer_same_shape(call);
  const bool channels = call.ranked(0) && batch_is_spatial(call);
  const Dim count = !channels ? Dim{} : call.rank(0) == 1 ? Dim::of(1) : call.shape(0)[1];
  for (std::size_t i = 1; i < 5; ++i) {
    if (!channels || !call.ranked(i) || call.rank(i) != 1) continue;
    const Dim& size = call.shape(i)[0];
    if (size.known() && count.known() && size.size != count.size) {
      throw Error("input " + std::to_string(i) + " has " + std::to_string(size.size) + " elements, X has " +
                  std::to_string(count.size) + " channels");
    }
  }
  for (std::size_t i = 1; i < call.output_count(); ++i) {
    if (call.ranked(3)) call.set_shape(i, call.shape(3));
    else if (channels) call.set_shape(i, {count});
  }
}

// ---- InstanceNormalization -------------------------------------------------

// All positions of one channel of one instance.
template <class A>
void normalize_channel(std::span<A> values, A epsilon, A scale, A bias) {
  const auto get = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  const Moments<A> at = moments<A>(static_cast<std::int64_t>(values.size()), get);
  for (A& value : values) value = normalized(value, at, epsilon, scale, bias);
}

void eval_instance_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 2) throw Error("input has shape " + to_string(x.dims()) + ", expected rank 2 or more");
  check_size(call.in(1), "scale", x.dim(1));
  check_size(call.in(2), "B", x.dim(1));
  const auto inner = static_cast<std::size_t>(AxisView(x.dims(), 1).inner);
  Tensor y = with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = elements<A>(x);
    const std::vector<A> scales = elements<A>(call.in(1));
    const std::vector<A> biases = elements<A>(call.in(2));
    const A epsilon = static_cast<A>(call.real("epsilon"));
    for (std::size_t first = 0; first < values.size(); first += inner) {
      const std::size_t channel = first / inner % scales.size();
      normalize_channel(std::span<A>(values.data() + first, inner), epsilon, scales[channel], biases[channel]);
    }
    return from_elements(x.dtype(), x.dims(), values);
  });
  call.out(0, std::move(y));
}

void infer_instance_norm(InferCall& call) {
  require_min_rank(call, 0, 2);
  require_rank(call, 1, 1);
  require_rank(call, 2, 1);
  infer_same_shape(call);
}

// ---- MeanVarianceNormalization ---------------------------------------------

void eval_mean_variance_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Groups groups = group_elements(x.dims(), axis_set(moment_axes(call), x.rank()));
  Tensor y = with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = elements<A>(x);
    for (std::size_t group = 0; group < groups.starts.size(); ++group) {
      const auto get = [&](std::int64_t i) { return values[groups.at(group, i)]; };
      const Moments<A> at = moments<A>(groups.length(), get);
      const A deviation = std::sqrt(at.variance) + static_cast<A>(1e-9F);
      for (std::int64_t i = 0; i < groups.length(); ++i) {
        A& value = values[groups.at(group, i)];
        value = (value - at.mean) / deviation;
      }
    }
    return from_elements(x.dtype(), x.dims(), values);
  });
  call.out(0, std::move(y));
}

void infer_mean_variance_norm(InferCall& call) {
  if (call.ranked(0)) axis_set(moment_axes(call), call.rank(0));  // throws on an axis outside
  infer_same_shape(call);
}

// ---- LpNormalization -------------------------------------------------------

std::int64_t norm_order(const Call& call) {
  const std::int64_t p = call.integer("p");
  if (p != 1 && p != 2) throw Error("attribute 'p' is " + std::to_string(p) + ", expected 1 or 2");
  return p;
}

// Divides one group by its norm.
template <class A>
void normalize_group(std::vector<A>& values, const Groups& groups, std::size_t group, std::int64_t p) {
  const auto power = [&](std::int64_t i) {
    const A x = values[groups.at(group, i)];
    return p == 1 ? std::fabs(x) : x * x;
  };
  const A sum = pairwise_sum<A>(groups.length(), power);
  const A norm = p == 1 ? sum : std::sqrt(sum);
  for (std::int64_t i = 0; i < groups.length(); ++i) {
    A& value = values[groups.at(group, i)];
    value = norm == 0 ? A{0} : value / norm;
  }
}

void eval_lp_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  const std::int64_t p = norm_order(call);
  const std::int64_t axis = call.integer("axis");
  const Groups groups = group_elements(x.dims(), axis_set({&axis, 1}, x.rank()));
  Tensor y = with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = elements<A>(x);
    for (std::size_t group = 0; group < groups.starts.size(); ++group) normalize_group(values, groups, group, p);
    return from_elements(x.dtype(), x.dims(), values);
  });
  call.out(0, std::move(y));
}

void infer_lp_norm(InferCall& call) {
  norm_order(call);
  if (call.ranked(0)) normalize_axis(call.integer("axis"), call.rank(0));
  infer_same_shape(call);
}

// ---- LRN -------------------------------------------------------------------

std::int64_t window_size(const Call& call) {
  const std::int64_t size = call.integer("size");
  if (size < 1) throw Error("attribute 'size' is " + std::to_string(size) + ", expected at least 1");
  return size;
}

// Sum of squares over the channels around the element's own.
template <class A>
A window_sum(const std::vector<A>& values, const AxisView& view, std::int64_t position, std::int64_t size) {
  const std::int64_t inner = position % view.inner;
  const std::int64_t channel = position / view.inner % view.length;
  const std::int64_t outer = position / view.inner / view.length;
  const std::int64_t first = std::max<std::int64_t>(0, channel - (size - 1) / 2);
  const std::int64_t last = std::min(view.length - 1, channel + size / 2);
  return pairwise_sum<A>(first, last + 1, [&](std::int64_t c) {
    const A value = values[view.at(outer, c, inner)];
    return value * value;
  });
}

void eval_local_response_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 2) throw Error("X has shape " + to_string(x.dims()) + ", expected rank 2 or more");
  const AxisView view(x.dims(), 1);
  // A window beyond all channels is no different from one that reaches them all.
  const std::int64_t size = std::min(window_size(call), 2 * view.length + 1);
  const double factor = call.real("alpha") / static_cast<double>(call.integer("size"));
  const double bias = call.real("bias");
  const double beta = call.real("beta");
  Tensor y = with_float_sum_type(x.dtype(), [&]<class A>() {
    const std::vector<A> values = elements<A>(x);
    std::vector<double> result(values.size());
    for (std::size_t at = 0; at < values.size(); ++at) {
      const auto sum = static_cast<double>(window_sum(values, view, static_cast<std::int64_t>(at), size));
      result[at] = static_cast<double>(values[at]) / std::pow(bias + factor * sum, beta);
    }
    return from_elements(x.dtype(), x.dims(), result);
  });
  call.out(0, std::move(y));
}

void infer_local_response_norm(InferCall& call) {
  window_size(call);
  require_min_rank(call, 0, 2);
  infer_same_shape(call);
}

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";

// ---- drawing ---------------------------------------------------------------

bool draw_batch_norm(DrawCall& call) {
  const Dims each = {call.rank() == 1 ? call.length(0) : call.channels()};
  for (int i = 0; i < 3; ++i) call.add_floats(each);
  call.add_floats(each, ValueClass::positive);
  return true;
}

bool draw_instance_norm(DrawCall& call) {
  for (int i = 0; i < 2; ++i) call.add_floats({call.channels()});
  return true;
}

const OpDef kOps[] = {
    {.identity =
         {.name = "BatchNormalization",
          .summary =
              "(x - mean) / sqrt(variance + epsilon) * scale + bias per channel; in training with the batch's moments",
          .signature = "(X: T, scale: T1, B: T1, input_mean: T2, input_var: T2) -> (Y: T, running_mean?: T2, "
                       "running_var?: T2, saved_mean?: T2, saved_var?: T2) where T: float, T1: float, T2: float",
          .attrs = "epsilon: float = 1e-05; momentum: float = 0.9; training_mode: int = 0 since 14; "
                   "spatial: int = 1 until 8; is_test: int = 0 until 6; consumed_inputs: ints until 5",
          .tf = "FusedBatchNormV3"},
     .meaning = {.infer = infer_batch_norm,
                 .eval = eval_batch_norm,
                 .freedom =
                     "computes in float32 (float64 when an operand is) and rounds once; before opset 14 it trains when "
                     "statistics are asked for; variance in two passes",
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_batch_norm,
                  .length = length_given_moments,
                  .vjp = batch_norm_gradient,
                  .hazards = batch_norm_hazards(),
                  .grants = {.ways = {Way::factor_and_term}, .measured_on = kOnnxRuntime}},
     .traits = {.cancels = true},
     .drawing = {.operands = draw_batch_norm, .first = FirstOperand::image, .results = 1, .often = 1}},
    {.identity =
         {.name = "InstanceNormalization",
          .summary =
              "(x - mean) / sqrt(variance + epsilon) * scale + bias with the moments of each instance and channel",
          .signature = "(input: T, scale: T, B: T) -> (output: T) where T: float",
          .attrs = "epsilon: float = 1e-05; consumed_inputs: ints until 5"},
     .meaning = {.infer = infer_instance_norm,
                 .eval = eval_instance_norm,
                 .freedom = "computes in float32 (float64 for float64) and rounds once; variance in two passes"},
     .analysis = {.range = range_instance_norm,
                  .vjp = instance_norm_gradient,
                  .hazards = instance_norm_hazards(),
                  .grants = {.ways = {Way::factor_and_term}, .measured_on = kOnnxRuntime}},
     .traits = {.cancels = true},
     .drawing = {.operands = draw_instance_norm, .first = FirstOperand::image}},
    {.identity = {.name = "MeanVarianceNormalization",
                  .since = 9,
                  .summary = "(x - mean) / (standard deviation + 1e-9) over axes, by default all but the channel's",
                  .signature = kFloatToFloat,
                  .attrs = "axes: ints"},
     .meaning =
         {.infer = infer_mean_variance_norm,
          .eval = eval_mean_variance_norm,
          .freedom =
              "computes in float32 (float64 for float64) and rounds once; variance in two passes, never negative"},
     .analysis = {.range = range_mean_variance_norm,
                  .vjp = mean_variance_norm_gradient,
                  .hazards = mean_variance_norm_hazards(),
                  .grants = {.ways = {Way::no_epsilon},
                             .elsewhere = {Way::difference_of_squares},
                             .measured_on = kOnnxRuntime}},
     .traits = {.cancels = true},
     .drawing = {.first = FirstOperand::image}},
    {.identity = {.name = "LpNormalization",
                  .summary = "x divided by its L1 or L2 norm along an axis; 0 where the norm is 0",
                  .signature = "(input: T) -> (output: T) where T: float",
                  .attrs = "axis: int = -1; p: int = 2"},
     .meaning = {.infer = infer_lp_norm,
                 .eval = eval_lp_norm,
                 .freedom = "sums pairwise in float32 (float64 for float64) and rounds once"},
     .analysis = {.range = range_lp_norm, .vjp = lp_norm_gradient, .hazards = lp_norm_hazards()}},
    {.identity = {.name = "LRN",
                  .summary = "x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 0.0001; beta: float = 0.75; bias: float = 1.0; size: int",
                  .tf = "LRN"},
     .meaning = {.infer = infer_local_response_norm,
                 .eval = eval_local_response_norm,
                 .freedom = "the sum is taken in float32 (float64 for float64), the rest in float64"},
     .analysis = {.range = range_local_response_norm,
                  .vjp = local_response_norm_gradient,
                  .hazards = local_response_norm_hazards(),
                  .grants = {.ways = {Way::difference_of_squares}, .measured_on = kOnnxRuntime}},
     .drawing = {.first = FirstOperand::image}},
};

}  // namespace

std::span<const OpDef> channel_norm_ops() { return kOps; }

}  // namespace finity
