// Lengths behind matrix products and convolutions with known weights.
//
// A convolution adds, for every tap t of its kernel, W_t times the operand moved by t. Its symbol (conv_symbol.cpp)
// says how much that stretches. Where it would take too long: with a number p_t > 0 per tap,
//   y_q = sum_t (W_t / sqrt(p_t)) (sqrt(p_t) x_(q,t)),   |y_q|^2 <= |[W_t / sqrt(p_t)]_t|^2 sum_t p_t |x_(q,t)|^2
// and an element of x is read by the taps of one class only (tap_classes), by each once. So the whole stretches by at
// most |[W_t / sqrt(p_t)]_t| times the root of the largest sum of p_t of a class; p_t is the size of W_t. What rounding
// adds is bounded with magnitudes instead of weights, whose matrix has the same Frobenius norm. A transposed
// convolution stretches as much as the convolution it transposes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/wide.h"
#include "ops/linear/gemm_attrs.h"
#include "ops/norm/norm_attrs.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/lengths.h"
#include "ops/windows/conv_range.h"
#include "ops/windows/window.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::int64_t kMostWeights = 1 << 24;

// How much a linear map stretches rows.
struct Stretch {
  double most = 0;        // of the map
  double magnitudes = 0;  // of the map with the magnitudes of its weights
  double one = 0;         // largest length of the weights of one result
  double terms = 1;       // of one result
  double scale = 1;       // of sums that are finished
};

Stretch larger(const Stretch& a, const Stretch& b) {
  const auto more = [](double x, double y) { return y <= x ? x : y; };  // NaN stays
  return {.most = more(a.most, b.most),
          .magnitudes = more(a.magnitudes, b.magnitudes),
          .one = more(a.one, b.one),
          .terms = more(a.terms, b.terms),
          .scale = more(a.scale, b.scale)};
}

// Of the result for an operand of this length and an addend.
Length stretched(const RangeCall& call, const Rows& rows, const Stretch& by, double operand, double addend,
                 double largest_addend) {
  const DType dtype = call.out_dtype(0);
  if (!std::isfinite(by.magnitudes)) return {};
  const double error = sum_error(call, dtype, by.terms + 2);
  const double underflow = sum_underflow(dtype, by.terms) * by.scale;
  const double length = (by.most + error * by.magnitudes) * operand + addend * (1 + error);
  const double reach = (by.one * operand + largest_addend) * (1 + error) + underflow;
  return {.rows = with_error(length, 0, underflow * largest_factor(rows), count_along(call.out_type(0), rows.axes)),
          .reach = with_error(reach, 0, 0, 0),
          .rough = rows.for_reach};
}

// The factor of a result's channel.
double factor_at(const Rows& rows, std::size_t axis, std::size_t k) {
  if (rows.scale.empty()) return 1;
  return rows.scaled == axis && k < rows.scale.size() ? std::abs(rows.scale[k]) : largest_factor(rows);
}

std::vector<double> factors_at(const Rows& rows, std::size_t axis, std::size_t count) {
  std::vector<double> factors(count, largest_factor(rows));
  for (std::size_t k = 0; k < count && rows.scaled == axis && k < rows.scale.size(); ++k)
    factors[k] = std::abs(rows.scale[k]);
  return factors;
}

// ---- weights -------------------------------------------------------------------------------

// Weights times the factors of their results, as floats times a power of two, of which each is off by kRounding of
// itself, or by less than float's smallest number.
struct ScaledWeights {
  std::vector<float> values = {};
  double unit = 1;
};
constexpr double kRounding = 0x1p-23;

FINITY_WIDE void scale_floats(const std::byte* from, std::size_t count, const double* by, double all, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float x = 0;
    std::memcpy(&x, from + i * sizeof x, sizeof x);
    to[i] = static_cast<float>(static_cast<double>(x) * by[i] * all);
  }
}

// Row by row of the first axis, of operand i; `fill(row, factors)` says by what the elements of a row are multiplied.
// `largest` is about the largest product.
template <class Fill>
ScaledWeights scaled_weights(RangeCall& call, std::size_t i, const Weights& weights, double largest, const Fill& fill) {
  const auto count = static_cast<std::size_t>(element_count(weights.dims));
  ScaledWeights result{.values = std::vector<float>(count), .unit = power_of_two_above(largest)};
  if (!std::isfinite(result.unit)) return {.values = std::vector<float>(count, std::nanf(""))};
  const bool floats = weights.data.dtype == DType::float32;
  const std::vector<double> others = floats ? std::vector<double>() : elements<double>(*call.value(i));
  const auto rows = static_cast<std::size_t>(weights.dims[0]);
  std::vector<double> by(count / rows);
  for (std::size_t row = 0; row < rows; ++row) {
    fill(row, std::span(by));
    const std::size_t first = row * by.size();
    float* to = result.values.data() + first;
    if (floats) {
      scale_floats(weights.data.bytes.data() + first * sizeof(float), by.size(), by.data(), 1 / result.unit, to);
      continue;
    }
    for (std::size_t k = 0; k < by.size(); ++k) to[k] = static_cast<float>(others[first + k] * by[k] / result.unit);
  }
  return result;
}

// The operand's weights, where there are few enough, of a float format.
std::optional<Weights> float_weights(RangeCall& call, std::size_t i, std::size_t least_rank) {
  std::optional<Weights> weights = weights_of(call, i);
  if (!weights || !is_float(weights->data.dtype) || weights->dims.size() < least_rank) return std::nullopt;
  const std::int64_t count = element_count(weights->dims);
  if (count == 0 || count > kMostWeights || !call.hull(i).is_finite()) return std::nullopt;
  return weights;
}

// In units of the weights, back into numbers.
Stretch in_numbers(Stretch stretch, double unit) {
  constexpr double kTiny = 1e-30;  // what vanished of millions of weights
  stretch.most = unit * (stretch.most + kRounding * stretch.magnitudes + kTiny);
  stretch.magnitudes = unit * (stretch.magnitudes * (1 + 2 * kRounding) + kTiny);
  stretch.one = unit * (stretch.one * (1 + 2 * kRounding) + kTiny);
  return stretch;
}

// The longest of some rows of this many weights.
double longest_row(std::span<const float> values, std::size_t count) {
  double most = 0;
  for (std::size_t i = 0; i < values.size(); i += count) {
    most = std::max(most, euclidean_size(values.subspan(i, count)));
  }
  return most;
}

// The root of the largest of the sums of squares of all elements i with the same place_of(i).
template <class Place>
double longest_column(std::span<const float> values, std::size_t places, const Place& place_of) {
  std::vector<double> squares(places);
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares[place_of(i)] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return std::sqrt(*std::ranges::max_element(squares)) * (1 + 1e-9);
}

// ---- convolutions --------------------------------------------------------------------------

// Of weights [out, in, taps], by tap.
std::vector<double> tap_sizes(std::span<const float> weights, std::size_t taps) {
  if (taps == 1) return {euclidean_size(weights)};
  constexpr std::size_t kRows = 16;  // added up on their own, for speed
  std::vector<double> squares(taps * kRows);
  std::size_t i = 0;
  for (; i + squares.size() <= weights.size(); i += squares.size()) {
    for (std::size_t k = 0; k < squares.size(); ++k) {
      squares[k] += static_cast<double>(weights[i + k]) * static_cast<double>(weights[i + k]);
    }
  }
  for (; i < weights.size(); ++i)
    squares[i % taps] += static_cast<double>(weights[i]) * static_cast<double>(weights[i]);
  std::vector<double> sizes(taps);
  for (std::size_t k = 0; k < squares.size(); ++k) sizes[k % taps] += squares[k];
  for (double& size : sizes) size = std::sqrt(size) * (1 + 1e-9);
  return sizes;
}

using TapClasses = std::vector<std::vector<std::int64_t>>;

// Of one group, in units of its weights.
Stretch stretch_of(std::span<const float> weights, const KernelShape& shape, const TapClasses& classes, bool rough) {
  const auto out = static_cast<std::size_t>(shape.out), columns = weights.size() / out;
  const std::size_t taps = columns / static_cast<std::size_t>(shape.in);
  const std::vector<double> sizes = tap_sizes(weights, taps);
  double meeting = 0, all = 0;
  for (const std::vector<std::int64_t>& together : classes) {
    double sum = 0;
    for (const std::int64_t tap : together) sum += sizes[static_cast<std::size_t>(tap)];
    meeting = std::max(meeting, sum);
    all += sum;
  }
  // The matrix [W_t / sqrt(p_t)]_t has this Frobenius norm.
  const double root = std::sqrt(meeting) * (1 + 1e-9), size = std::sqrt(all) * (1 + 1e-9);
  Stretch result{.most = root * size, .magnitudes = root * size};
  if (rough) return result;
  const bool apart = std::ranges::all_of(classes, [](const auto& together) { return together.size() == 1; });
  if (apart) {  // every p_t may be 1
    result.most = std::min(result.most, spectral_bound(weights, out, columns, {}, euclidean_size(weights)));
    return result;
  }
  double most = symbol_bound(weights, shape);
  if (!(most < kInf)) {
    std::vector<double> factors(taps);
    for (std::size_t t = 0; t < taps; ++t) factors[t] = sizes[t] > 0 ? 1 / std::sqrt(sizes[t]) : 0;
    most = root * spectral_bound(weights, out, columns, factors, size);
  }
  result.most = std::min(result.most, most);
  return result;
}

struct ConvWeights {
  std::optional<Weights> weights = {};
  std::size_t groups = 1;
  KernelShape shape = {};
  TapClasses classes = {};

  std::size_t taps() const { return static_cast<std::size_t>(element_count(shape.taps)); }
};

// No weights where lengths say nothing.
ConvWeights conv_weights(RangeCall& call, const Rows& rows) {
  const Type& type = call.out_type(0);
  ConvWeights result{.weights = float_weights(call, 1, 3)};
  if (!type.ranked || !result.weights) return {};
  const Dims& dims = result.weights->dims;
  const std::int64_t groups = group_count(call);
  const std::size_t rank = dims.size();
  if (rows.axes != all_but_first(type.shape.size()) || type.shape.size() != rank || rank > 31) return {};
  if (dims[0] % groups != 0) return {};
  result.groups = static_cast<std::size_t>(groups);
  result.shape = {.out = dims[0] / groups,
                  .in = dims[1],
                  .taps = {dims.begin() + 2, dims.end()},
                  .strides = steps_of(call, "strides", rank - 2),
                  .dilations = steps_of(call, "dilations", rank - 2)};
  result.classes = tap_classes(result.shape.taps, result.shape.strides, result.shape.dilations);
  return result;
}

// The bias of a channel lies at all of its positions.
Length with_bias(RangeCall& call, const Rows& rows, const Stretch& by, double operand) {
  constexpr std::int64_t kMost = 1 << 22;
  double addend = 0, largest = 0;
  if (call.has_range(2)) {
    const Tensor* bias = call.value(2, kMost);
    if (bias == nullptr) return {};
    std::vector<double> values = elements<double>(*bias);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!(std::abs(values[k]) <= largest)) largest = std::abs(values[k]);
      values[k] *= factor_at(rows, 1, k);
    }
    addend = euclidean_size(values) * std::sqrt(count_along(call.out_type(0), rows.axes & ~3U));
  }
  return stretched(call, rows, by, operand, addend, largest);
}

// The longest of the groups, by their own weights.
Stretch stretch_of(const ConvWeights& conv, const ScaledWeights& weights, bool rough) {
  Stretch most;
  const std::size_t each = weights.values.size() / conv.groups;
  for (std::size_t group = 0; group < conv.groups; ++group) {
    const auto own = std::span(weights.values).subspan(group * each, each);
    most = larger(most, stretch_of(own, conv.shape, conv.classes, rough));
  }
  return most;
}

}  // namespace

Length length_conv(RangeCall& call, const Rows& rows) {
  const ConvWeights conv = conv_weights(call, rows);
  const double operand = conv.weights ? call.length(0, {.axes = rows.axes}) : kInf;
  if (!(operand < kInf)) return {};
  const std::size_t one = static_cast<std::size_t>(conv.shape.in) * conv.taps();
  const std::vector<double> factors = factors_at(rows, 1, static_cast<std::size_t>(conv.weights->dims[0]));
  const double largest = call.hull(1).magnitude() * largest_factor(rows);
  const ScaledWeights weights =
      scaled_weights(call, 1, *conv.weights, largest,
                     [&](std::size_t row, std::span<double> by) { std::ranges::fill(by, factors[row]); });
  Stretch most = stretch_of(conv, weights, rows.for_reach);
  if (rows.scale.empty()) most.one = longest_row(weights.values, one);
  most = in_numbers(most, weights.unit);
  most.terms = static_cast<double>(one);
  return with_bias(call, rows, most, operand);
}

Length length_conv_transpose(RangeCall& call, const Rows& rows) {
  const ConvWeights conv = conv_weights(call, rows);
  const double operand = conv.weights ? call.length(0, {.axes = rows.axes}) : kInf;
  if (!(operand < kInf)) return {};
  const auto out = static_cast<std::size_t>(conv.shape.out), in = static_cast<std::size_t>(conv.shape.in);
  const std::size_t taps = conv.taps(), each = out * in * taps;
  const std::vector<double> factors = factors_at(rows, 1, in * conv.groups);
  const double largest = call.hull(1).magnitude() * largest_factor(rows);
  const auto fill = [&](std::size_t row, std::span<double> by) {
    for (std::size_t k = 0; k < by.size(); ++k) by[k] = factors[row / out * in + k / taps];
  };
  const ScaledWeights weights = scaled_weights(call, 1, *conv.weights, largest, fill);
  Stretch most = stretch_of(conv, weights, rows.for_reach);
  most.one =
      longest_column(weights.values, in * conv.groups, [&](std::size_t i) { return i / each * in + i / taps % in; });
  most = in_numbers(most, weights.unit);
  most.terms = static_cast<double>(out * taps);
  return with_bias(call, rows, most, operand);
}

// ---- matrix products -------------------------------------------------------------------------

namespace {

// Of rows times the matrix [depth, results], or [results, depth] where it is turned; all times a factor.
Stretch stretch_of(RangeCall& call, std::size_t operand, const Weights& matrix, bool turned, const Rows& rows,
                   std::size_t axis, double factor) {
  const auto first = static_cast<std::size_t>(matrix.dims[0]), second = static_cast<std::size_t>(matrix.dims[1]);
  std::vector<double> factors = factors_at(rows, axis, turned ? first : second);
  for (double& one : factors) one *= factor;
  const double largest = call.hull(operand).magnitude() * largest_factor(rows) * std::abs(factor);
  const ScaledWeights weights =
      scaled_weights(call, operand, matrix, largest, [&](std::size_t row, std::span<double> by) {
        if (turned) std::ranges::fill(by, factors[row]);
        else std::ranges::copy(factors, by.begin());
      });
  Stretch result;
  result.magnitudes = euclidean_size(weights.values);
  result.most =
      rows.for_reach ? result.magnitudes : spectral_bound(weights.values, first, second, {}, result.magnitudes);
  if (turned) result.one = longest_row(weights.values, second);
  else result.one = longest_column(weights.values, second, [&](std::size_t i) { return i % second; });
  result = in_numbers(result, weights.unit);
  result.terms = static_cast<double>(turned ? second : first);
  return result;
}

std::optional<Weights> weight_matrix(RangeCall& call, std::size_t i) {
  std::optional<Weights> weights = float_weights(call, i, 2);
  return weights && weights->dims.size() == 2 ? weights : std::nullopt;
}

}  // namespace

Length length_matmul(RangeCall& call, const Rows& rows) {
  const Type& type = call.out_type(0);
  const std::size_t rank = type.shape.size();
  if (!type.ranked || rank < 2 || rank > 31) return {};
  std::optional<Weights> weights = weight_matrix(call, 1);
  const bool right = weights.has_value();
  const std::size_t data = right ? 0 : 1, axis = right ? rank - 1 : rank - 2;
  if (!right) weights = weight_matrix(call, 0);
  const AbsTensor& x = call.in(data);
  if (!weights || !x.ranked || x.rank() != rank || !has_axis(rows.axes, axis)) return {};
  const double operand = call.length(data, {.axes = rows.axes});
  if (!(operand < kInf)) return {};
  const Stretch by = stretch_of(call, 1 - data, *weights, !right, rows, axis, 1);
  return stretched(call, rows, by, operand, 0, 0);
}

Length length_gemm(RangeCall& call, const Rows& asked) {
  const std::optional<Weights> weights = weight_matrix(call, 1);
  const AbsTensor& a = call.in(0);
  const auto [alpha, beta, turned_a, turned_b] = read_gemm(call);
  if (!weights || !a.ranked || a.rank() != 2 || !call.out_type(0).ranked) return {};
  if (!has_axis(asked.axes, 1) || broadcasts_legacy(call)) return {};
  // Factors below 1 make results smaller than sums on the way to them, and rows shorter than their reach.
  Rows rows = asked;
  rows.for_reach = asked.for_reach && std::abs(alpha) >= 1 && std::abs(beta) >= 1;
  std::uint32_t axes = rows.axes;
  if (turned_a) axes = (rows.axes & 1U) << 1U | (rows.axes >> 1U & 1U);
  const double operand = call.length(0, {.axes = axes});
  if (!(operand < kInf)) return {};
  Stretch by = stretch_of(call, 1, *weights, turned_b, rows, 1, alpha);
  by.one *= std::max(1.0, 1 / std::abs(alpha));  // sums before they are scaled
  by.scale = 1 + std::abs(alpha) + std::abs(beta);
  by.terms += 2;
  if (!call.has_range(2)) return stretched(call, rows, by, operand, 0, 0);
  const double addend = operand_length(call, 2, rows) * std::abs(beta);
  const Range largest = call.hull(2);
  if (!largest.is_finite()) return {};
  return stretched(call, rows, by, operand, addend, largest.magnitude() * std::max(1.0, std::abs(beta)));
}

// ---- BatchNormalization ------------------------------------------------------------------------

namespace {

// Per channel: x f + t, f = scale / sqrt(variance + epsilon) and t = bias - mean f, in whatever order.
struct Affine {
  std::vector<double> factors = {}, rest = {};
  bool known = false;
};

Affine affine_channels(RangeCall& call, const Rows& rows) {
  constexpr std::int64_t kMost = 1 << 20;
  std::vector<double> of[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor* known = call.value(i + 1, kMost);
    if (known == nullptr || !call.hull(i + 1).is_finite()) return {};
    of[i] = elements<double>(*known);
    if (of[i].size() != of[0].size() || of[i].empty()) return {};
  }
  const DType dtype = call.out_dtype(0);
  const double unit = 16 * unit_roundoff(dtype), tiny = min_subnormal(dtype);
  // Narrow formats round epsilon, perhaps by much.
  const double epsilon = call.real("epsilon"), rounded = round_to(dtype, epsilon);
  Affine result{.known = true};
  for (std::size_t k = 0; k < of[0].size(); ++k) {
    const auto factor = [&](double eps) { return of[0][k] / std::sqrt(of[3][k] + eps); };
    const double a = factor(epsilon), b = factor(rounded), mean = of[2][k];
    if (!std::isfinite(a) || !std::isfinite(b)) return {};
    const double most = std::max(std::abs(a), std::abs(b)) * (1 + unit) + tiny;
    const double shift = std::max(std::abs(of[1][k] - a * mean), std::abs(of[1][k] - b * mean));
    result.factors.push_back(most);
    result.rest.push_back((shift + unit * (std::abs(of[1][k]) + most * std::abs(mean)) +
                           4 * tiny * (1 + std::abs(mean) + std::abs(of[0][k]))) *
                          factor_at(rows, 1, k));
  }
  return result;
}

}  // namespace

Length length_given_moments(RangeCall& call, const Rows& rows) {
  const bool given_only = !batch_trains(call) && call.output_count() == 1;
  if (!batch_is_spatial(call) || !given_only || call.in_type(0).shape.size() < 2 || !has_axis(rows.axes, 1)) return {};
  const Affine affine = affine_channels(call, rows);
  if (!affine.known) return {};
  std::vector<double> product;
  const double moved = operand_length(call, 0, with_scale(rows, affine.factors, 1, product));
  const double constant = euclidean_size(affine.rest) * std::sqrt(count_along(call.out_type(0), rows.axes & ~2U));
  return {.rows = with_error(moved + constant, 16 * unit_roundoff(call.out_dtype(0)), 0, 1)};
}

}  // namespace finity
