#include "ops/norm/norm_gradient.h"

#include <algorithm>

#include "base/error.h"
#include "ops/norm/norm_attrs.h"
#include "ops/norm/norm_stages.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

using Axes = std::vector<std::int64_t>;

// Rows are the elements along `axes`.
struct StandardRows {
  ValueId distance = {};  // from the mean, or from 0
  ValueId inverse = {};   // 1 / sqrt(variance + epsilon)
  ValueId normalized = {};
  Axes axes = {};
  Centre centre = Centre::mean;
};

ValueId inverse_deviation(BuildCall& call, ValueId variance, DType dtype) {
  const ValueId epsilon = call.scalar(call.real("epsilon"), dtype);
  return call.add("Reciprocal", {call.add("Sqrt", {call.sum(variance, epsilon)})});
}

// `x` is in the format that the op computes in.
StandardRows standardize(BuildCall& call, ValueId x, Axes axes, Centre centre) {
  StandardRows rows{.axes = std::move(axes), .centre = centre};
  rows.distance = centre == Centre::mean ? call.difference(x, mean_over(call, x, rows.axes)) : x;
  const ValueId variance = mean_over(call, call.product(rows.distance, rows.distance), rows.axes);
  rows.inverse = inverse_deviation(call, variance, call.type(x).dtype);
  rows.normalized = call.product(rows.distance, rows.inverse);
  return rows;
}

// What flows to x when `gradient` arrives at the normalised elements:
// inverse * (g - mean(g) - normalized * mean(g * normalized)).
ValueId through_rows(BuildCall& call, const StandardRows& rows, ValueId gradient) {
  const ValueId along = mean_over(call, call.product(gradient, rows.normalized), rows.axes);
  ValueId rest = call.difference(gradient, call.product(rows.normalized, along));
  if (rows.centre == Centre::mean) rest = call.difference(rest, mean_over(call, gradient, rows.axes));
  return call.product(rows.inverse, rest);
}

// Statistics of most norms are computed in float32, of float64 in float64.

// One number per channel, next to [N, C, ...] of that rank.
ValueId per_channel(BuildCall& call, ValueId parameter, std::size_t rank) {
  return rank < 3 ? parameter : unsqueeze(call, parameter, axes_from(1, rank - 1));
}

// All axes but that of the channels. A vector has one channel.
Axes all_but_channels(std::size_t rank) {
  Axes axes = axes_from(2, rank);
  axes.insert(axes.begin(), 0);
  return axes;
}

ValueId sum_per_channel(BuildCall& call, ValueId x) {
  const std::size_t rank = call.rank(x);
  return rank == 1 ? sum_over(call, x, {0}) : sum_away(call, x, all_but_channels(rank));
}

// ---- rows --------------------------------------------------------------------

// Gradients that arrive at the mean and at the inverse deviation, where they are results.
ValueId through_statistics(BuildCall& call, const StandardRows& rows, ValueId to_x, std::size_t deviation_result,
                           DType stash) {
  const bool at_mean = rows.centre == Centre::mean && call.has_grad(1);
  if (!at_mean && !call.has_grad(deviation_result)) return to_x;
  const ValueId count = ratio_of_sizes(call, rows.distance, rows.inverse, stash);
  if (at_mean) to_x = call.sum(to_x, call.quotient(call.grad(1), count));
  if (!call.has_grad(deviation_result)) return to_x;
  const ValueId cube = call.product(rows.inverse, call.product(rows.inverse, rows.inverse));
  const ValueId share = call.quotient(call.product(call.grad(deviation_result), cube), count);
  return call.difference(to_x, call.product(share, rows.distance));
}

template <Centre kCentre>
void row_norm_gradient(BuildCall& call) {
  const DType own = call.in_type(0).dtype, scaling = call.in_type(1).dtype, stash = stash_type(call);
  const std::size_t rank = call.rank(call.in(0));
  const Axes axes = axes_from(normalize_axis(call.integer("axis"), rank), rank);
  const StandardRows rows = standardize(call, call.cast(call.in(0), stash), axes, kCentre);
  const ValueId gradient = call.grad(0);
  if (call.wanted(0)) {
    const ValueId arriving = call.cast(call.product(gradient, call.in(1)), stash);
    const ValueId to_x = through_rows(call, rows, arriving);
    call.give(0, call.cast(through_statistics(call, rows, to_x, kCentre == Centre::mean ? 2 : 1, stash), own));
  }
  if (call.wanted(1)) {
    const ValueId normalized = call.cast(call.cast(rows.normalized, own), scaling);
    call.give(1, call.product(gradient, normalized));
  }
  call.give(2, gradient);
}

}  // namespace

void layer_norm_gradient(BuildCall& call) { row_norm_gradient<Centre::mean>(call); }
void rms_norm_gradient(BuildCall& call) { row_norm_gradient<Centre::zero>(call); }

// ---- groups of channels ------------------------------------------------------

// Rows are [N, groups, the rest]. Up to opset 20 scale and bias belong to groups, later to channels.
void group_norm_gradient(BuildCall& call) {
  const bool of_groups = call.version() < 21;
  const DType own = call.dtype(), stash = of_groups ? sum_format(own) : stash_type(call);
  const ValueId x = call.in(0);
  const std::size_t rank = call.rank(x);
  const std::int64_t groups = call.integer("num_groups");
  const auto as_rows = [&](ValueId value) { return reshape_to(call, call.cast(value, stash), {0, groups, -1}); };
  const StandardRows rows = standardize(call, as_rows(x), {2}, Centre::mean);
  const ValueId gradient = call.grad(0);
  const ValueId scale = of_groups ? unsqueeze(call, call.in(1), {1}) : per_channel(call, call.in(1), rank);
  const ValueId arriving =
      of_groups ? call.product(as_rows(gradient), call.cast(scale, stash)) : as_rows(call.product(gradient, scale));
  if (call.wanted(0)) call.give(0, call.cast(reshape_like(call, through_rows(call, rows, arriving), x), own));
  const auto give_parameter = [&](std::size_t i, ValueId part) {
    call.give(i, call.cast(sum_per_channel(call, part), own));
  };
  if (call.wanted(1)) {
    const ValueId part = call.product(as_rows(gradient), rows.normalized);
    give_parameter(1, of_groups ? part : reshape_like(call, part, x));
  }
  if (call.wanted(2)) give_parameter(2, of_groups ? as_rows(gradient) : gradient);
}

// ---- channels ----------------------------------------------------------------

namespace {

// What BatchNormalization and InstanceNormalization share: scale and bias per channel.
struct Channels {
  DType own = {}, format = {};
  std::size_t rank = 0;
  ValueId x = {}, gradient = {}, scale = {};  // in the format
};

Channels read_channels(BuildCall& call) {
  Channels channels;
  channels.own = call.in_type(0).dtype;
  channels.format = sum_format(channels.own);
  channels.rank = call.rank(call.in(0));
  channels.x = call.cast(call.in(0), channels.format);
  channels.gradient = call.cast(call.grad(0), channels.format);
  channels.scale = per_channel(call, call.cast(call.in(1), channels.format), channels.rank);
  return channels;
}

void give_scale_and_bias(BuildCall& call, const Channels& channels, ValueId normalized) {
  const auto give = [&](std::size_t i, ValueId part) {
    call.give(i, call.cast(sum_per_channel(call, part), call.in_type(i).dtype));
  };
  if (call.wanted(1)) give(1, call.product(channels.gradient, normalized));
  if (call.wanted(2)) give(2, channels.gradient);
}

void give_through_rows(BuildCall& call, const Channels& channels, const StandardRows& rows) {
  if (call.wanted(0)) {
    const ValueId arriving = call.product(channels.gradient, channels.scale);
    call.give(0, call.cast(through_rows(call, rows, arriving), channels.own));
  }
  give_scale_and_bias(call, channels, rows.normalized);
}

// With moments that are operands.
void given_moments_gradient(BuildCall& call, const Channels& channels) {
  const auto moment = [&](std::size_t i) { return call.cast(call.in(i), channels.format); };
  const ValueId inverse_of_channel = inverse_deviation(call, moment(4), channels.format);
  const ValueId inverse = per_channel(call, inverse_of_channel, channels.rank);
  const ValueId distance = call.difference(channels.x, per_channel(call, moment(3), channels.rank));
  const ValueId to_x = call.product(channels.gradient, call.product(channels.scale, inverse));
  call.give(0, call.cast(to_x, channels.own));
  give_scale_and_bias(call, channels, call.product(distance, inverse));
  if (call.wanted(3)) {
    call.give(3, call.cast(call.add("Neg", {sum_per_channel(call, to_x)}), call.in_type(3).dtype));
  }
  if (call.wanted(4)) {
    const ValueId total = sum_per_channel(call, call.product(to_x, distance));
    const ValueId square = call.product(inverse_of_channel, inverse_of_channel);
    const ValueId half = call.product(call.scalar(-0.5, channels.format), square);
    call.give(4, call.cast(call.product(half, total), call.in_type(4).dtype));
  }
}

}  // namespace

void batch_norm_gradient(BuildCall& call) {
  if (!batch_is_spatial(call)) throw Unsupported("its derivative is not known with spatial = 0");
  for (std::size_t i = 1; i < call.output_count(); ++i) {
    if (call.has_grad(i)) throw Unsupported("its derivative is not known for the statistics it gives");
  }
  const Channels channels = read_channels(call);
  if (!batch_trains(call)) return given_moments_gradient(call, channels);
  const Axes axes = all_but_channels(channels.rank);
  give_through_rows(call, channels, standardize(call, channels.x, axes, Centre::mean));
}

void instance_norm_gradient(BuildCall& call) {
  const Channels channels = read_channels(call);
  const Axes axes = axes_from(2, channels.rank);
  give_through_rows(call, channels, standardize(call, channels.x, axes, Centre::mean));
}

// ---- other norms -------------------------------------------------------------

// y = d / (s + 1e-9) where d is the distance from the mean and s the root of the mean of d^2.
void mean_variance_norm_gradient(BuildCall& call) {
  const Axes axes = moment_axes(call);
  const DType own = call.dtype(), format = sum_format(own);
  const ValueId x = call.cast(call.in(0), format), gradient = call.cast(call.grad(0), format);
  const ValueId distance = call.difference(x, mean_over(call, x, axes));
  const ValueId deviation = call.add("Sqrt", {mean_over(call, call.product(distance, distance), axes)});
  const ValueId divisor = call.sum(deviation, call.scalar(1e-9, format));
  const ValueId along = mean_over(call, call.product(gradient, call.quotient(distance, deviation)), axes);
  const ValueId centred = call.difference(gradient, mean_over(call, gradient, axes));
  const ValueId rest = call.difference(centred, call.product(call.quotient(distance, divisor), along));
  call.give(0, call.cast(call.quotient(rest, divisor), own));
}

// y = x / norm; the derivative of the norm is y for p = 2 and the sign of x for p = 1.
void lp_norm_gradient(BuildCall& call) {
  const bool absolute = call.integer("p") == 1;
  const Axes axes = {call.integer("axis")};
  const ValueId x = call.in(0), gradient = call.grad(0);
  const ValueId norm = call.add(absolute ? "ReduceL1" : "ReduceL2", {x, call.ints(axes)});
  const ValueId slope = absolute ? call.add("Sign", {x}) : call.out(0);
  const ValueId along = sum_over(call, call.product(gradient, call.out(0)), axes);
  call.give(0, call.quotient(call.difference(gradient, call.product(slope, along)), norm));
}

namespace {

// The sum over `before` channels before each one, itself, and `after` ones: a convolution along the channels, which
// become the third of four axes.
ValueId sum_of_channels(BuildCall& call, ValueId x, std::int64_t before, std::int64_t after) {
  const ValueId images = unsqueeze(call, reshape_to(call, x, {0, 0, -1}), {1});
  const ValueId like = call.ints({1, 1, before + after + 1, 1});
  const ValueId ones = call.add("Expand", {call.scalar(1, call.type(x).dtype), like});
  Attrs attrs;
  attrs.set("pads", std::vector<std::int64_t>{before, 0, after, 0});
  return reshape_like(call, call.add("Conv", {images, ones}, std::move(attrs)), x);
}

}  // namespace

// y = x / b^beta, b = bias + alpha / size * (sum of x^2 over channels around); channels are part of each other's sums.
void local_response_norm_gradient(BuildCall& call) {
  const DType own = call.dtype(), format = sum_format(own);
  const std::int64_t size = call.integer("size"), before = (size - 1) / 2, after = size / 2;
  const double factor = call.real("alpha") / static_cast<double>(size), beta = call.real("beta");
  const ValueId x = call.cast(call.in(0), format), gradient = call.cast(call.grad(0), format);
  const ValueId squares = sum_of_channels(call, call.product(x, x), before, after);
  const ValueId base =
      call.sum(call.scalar(call.real("bias"), format), call.product(call.scalar(factor, format), squares));
  const ValueId power = call.add("Pow", {base, call.scalar(beta, format)});
  const ValueId shares = call.quotient(call.product(gradient, call.quotient(x, power)), base);
  const ValueId slope =
      call.product(call.scalar(2 * factor * beta, format), sum_of_channels(call, shares, after, before));
  call.give(0, call.cast(call.difference(call.quotient(gradient, power), call.product(x, slope)), own));
}

}  // namespace finity
