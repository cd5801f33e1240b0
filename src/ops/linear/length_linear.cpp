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

#include "ops/norm/norm_attrs.h"
#include "ops/shared/lengths.h"
#include "ops/windows/conv_range.h"
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
  return {.most = std::max(a.most, b.most),
          .magnitudes = std::max(a.magnitudes, b.magnitudes),
          .one = std::max(a.one, b.one),
          .terms = std::max(a.terms, b.terms),
          .scale = std::max(a.scale, b.scale)};
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
          .reach = with_error(reach, 0, 0, 0)};
}

// The factor of a result's channel.
double factor_at(const Rows& rows, std::size_t axis, std::size_t k) {
  if (rows.scale.empty()) return 1;
  return rows.scaled == axis && k < rows.scale.size() ? std::abs(rows.scale[k]) : largest_factor(rows);
}

double size_of(std::span<const double> values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares) * (1 + 1e-9);
}

// ---- convolutions --------------------------------------------------------------------------

// One group of a kernel: weights [out, in, taps].
struct Kernel {
  std::size_t out = 0, in = 0, taps = 0;
  std::vector<double> weights = {};

  double tap_size(std::size_t tap) const {
    double squares = 0;
    for (std::size_t i = tap; i < weights.size(); i += taps) squares += weights[i] * weights[i];
    return std::sqrt(squares) * (1 + 1e-9);
  }
};

Stretch stretch_of(const Kernel& kernel, const KernelShape& shape,
                   const std::vector<std::vector<std::int64_t>>& classes) {
  std::vector<double> sizes(kernel.taps);
  for (std::size_t tap = 0; tap < kernel.taps; ++tap) sizes[tap] = kernel.tap_size(tap);
  double meeting = 0;
  for (const std::vector<std::int64_t>& taps : classes) {
    double sum = 0;
    for (const std::int64_t tap : taps) sum += sizes[static_cast<std::size_t>(tap)];
    meeting = std::max(meeting, sum);
  }
  std::vector<double> matrix = kernel.weights;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const double size = sizes[i % kernel.taps];
    matrix[i] = size > 0 ? matrix[i] / std::sqrt(size) : 0;
  }
  const double root = std::sqrt(meeting) * (1 + 1e-9);
  double most = symbol_bound(kernel.weights, shape);
  if (!(most < kInf)) most = root * spectral_bound(matrix, kernel.out, kernel.in * kernel.taps);
  return {.most = std::min(most, root * size_of(matrix)), .magnitudes = root * size_of(matrix)};
}

// Axis 0 of the weights times the factors of its channels (or axis 1 of each group, for a transposed convolution).
std::vector<double> scaled_weights(const Tensor& weights, const Rows& rows, std::size_t groups, bool transposed) {
  std::vector<double> values = elements<double>(weights);
  if (rows.scale.empty()) return values;
  const auto first = static_cast<std::size_t>(weights.dim(0)), second = static_cast<std::size_t>(weights.dim(1));
  const std::size_t taps = values.size() / std::max<std::size_t>(first * second, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t a = i / (second * taps), b = i / taps % second;
    values[i] *= factor_at(rows, 1, transposed ? a / (first / groups) * second + b : a);
  }
  return values;
}

struct ConvWeights {
  const Tensor* weights = nullptr;
  std::size_t groups = 1;
  KernelShape shape = {};
  std::vector<std::vector<std::int64_t>> classes = {};
};

// Null weights where lengths say nothing.
ConvWeights conv_weights(RangeCall& call, const Rows& rows) {
  const Type& type = call.out_type(0);
  const Tensor* weights = call.value(1, kMostWeights);
  if (!type.ranked || weights == nullptr || !is_float(weights->dtype()) || weights->rank() < 3) return {};
  const std::int64_t groups = call.integer("group", 1);
  const std::size_t rank = weights->rank();
  if (rows.axes != all_but_first(type.shape.size()) || type.shape.size() != rank || rank > 31) return {};
  if (groups < 1 || weights->dim(0) % groups != 0 || weights->empty() || !call.hull(1).is_finite()) return {};
  KernelShape shape{.out = weights->dim(0) / groups,
                    .in = weights->dim(1),
                    .taps = {weights->dims().begin() + 2, weights->dims().end()},
                    .strides = steps_of(call, "strides", rank - 2),
                    .dilations = steps_of(call, "dilations", rank - 2)};
  ConvWeights result{.weights = weights, .groups = static_cast<std::size_t>(groups)};
  result.classes = tap_classes(shape.taps, shape.strides, shape.dilations);
  result.shape = std::move(shape);
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
    addend = size_of(values) * std::sqrt(count_along(call.out_type(0), rows.axes & ~3U));
  }
  return stretched(call, rows, by, operand, addend, largest);
}

}  // namespace

Length length_conv(RangeCall& call, const Rows& rows) {
  const ConvWeights conv = conv_weights(call, rows);
  const double operand = conv.weights == nullptr ? kInf : call.length(0, {.axes = rows.axes});
  if (!(operand < kInf)) return {};
  const std::vector<double> values = scaled_weights(*conv.weights, rows, conv.groups, false);
  Kernel kernel{.out = static_cast<std::size_t>(conv.weights->dim(0)) / conv.groups,
                .in = static_cast<std::size_t>(conv.weights->dim(1))};
  kernel.taps = values.size() / (kernel.out * conv.groups * kernel.in);
  const std::size_t each = values.size() / conv.groups, one = kernel.in * kernel.taps;
  Stretch most{.terms = static_cast<double>(one)};
  for (std::size_t group = 0; group < conv.groups; ++group) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(group * each);
    kernel.weights.assign(begin, begin + static_cast<std::ptrdiff_t>(each));
    most = larger(most, stretch_of(kernel, conv.shape, conv.classes));
  }
  for (std::size_t i = 0; i < values.size() && rows.scale.empty(); i += one) {
    most.one = std::max(most.one, size_of(std::span(values).subspan(i, one)));
  }
  return with_bias(call, rows, most, operand);
}

Length length_conv_transpose(RangeCall& call, const Rows& rows) {
  const ConvWeights conv = conv_weights(call, rows);
  const double operand = conv.weights == nullptr ? kInf : call.length(0, {.axes = rows.axes});
  if (!(operand < kInf)) return {};
  const std::vector<double> values = scaled_weights(*conv.weights, rows, conv.groups, true);
  Kernel kernel{.out = static_cast<std::size_t>(conv.weights->dim(0)) / conv.groups,
                .in = static_cast<std::size_t>(conv.weights->dim(1))};
  kernel.taps = values.size() / (kernel.out * conv.groups * kernel.in);
  const std::size_t each = values.size() / conv.groups;
  Stretch most{.terms = static_cast<double>(kernel.out * kernel.taps)};
  for (std::size_t group = 0; group < conv.groups; ++group) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(group * each);
    kernel.weights.assign(begin, begin + static_cast<std::ptrdiff_t>(each));
    most = larger(most, stretch_of(kernel, conv.shape, conv.classes));
    std::vector<double> squares(kernel.in);
    for (std::size_t i = 0; i < each; ++i)
      squares[i / kernel.taps % kernel.in] += kernel.weights[i] * kernel.weights[i];
    most.one = std::max(most.one, std::sqrt(*std::ranges::max_element(squares)) * (1 + 1e-9));
  }
  return with_bias(call, rows, most, operand);
}

// ---- matrix products -------------------------------------------------------------------------

namespace {

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values = {};
};

Matrix matrix_of(const Tensor& tensor, bool transposed) {
  Matrix result{.rows = static_cast<std::size_t>(tensor.dim(0)), .columns = static_cast<std::size_t>(tensor.dim(1))};
  result.values = elements<double>(tensor);
  if (!transposed) return result;
  std::vector<double> turned(result.values.size());
  for (std::size_t i = 0; i < result.rows; ++i) {
    for (std::size_t j = 0; j < result.columns; ++j)
      turned[j * result.rows + i] = result.values[i * result.columns + j];
  }
  return {.rows = result.columns, .columns = result.rows, .values = std::move(turned)};
}

// Of rows times the matrix [depth, columns]; factors are those of the columns.
Stretch stretch_of(Matrix matrix, const Rows& rows, std::size_t axis, double factor) {
  std::vector<double> squares(matrix.columns);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    const std::size_t column = i % matrix.columns;
    matrix.values[i] *= factor * factor_at(rows, axis, column);
    squares[column] += matrix.values[i] * matrix.values[i];
  }
  Stretch result{.terms = static_cast<double>(matrix.rows)};
  for (const double square : squares) result.one = std::max(result.one, std::sqrt(square) * (1 + 1e-9));
  result.most = spectral_bound(matrix.values, matrix.rows, matrix.columns);
  result.magnitudes = size_of(matrix.values);
  return result;
}

bool is_weight_matrix(const Tensor* tensor) {
  return tensor != nullptr && tensor->rank() == 2 && is_float(tensor->dtype()) && !tensor->empty();
}

bool has_axis(std::uint32_t axes, std::size_t axis) { return axis < 32 && (axes >> axis & 1U) != 0; }

}  // namespace

Length length_matmul(RangeCall& call, const Rows& rows) {
  const Type& type = call.out_type(0);
  const std::size_t rank = type.shape.size();
  if (!type.ranked || rank < 2 || rank > 31) return {};
  const bool right = is_weight_matrix(call.value(1, kMostWeights));
  const std::size_t data = right ? 0 : 1, axis = right ? rank - 1 : rank - 2;
  if (!right && !is_weight_matrix(call.value(0, kMostWeights))) return {};
  const AbsTensor& x = call.in(data);
  if (!x.ranked || x.rank() != rank || !has_axis(rows.axes, axis) || !call.hull(1 - data).is_finite()) return {};
  const double operand = call.length(data, {.axes = rows.axes});
  if (!(operand < kInf)) return {};
  const Stretch by = stretch_of(matrix_of(*call.value(1 - data, kMostWeights), !right), rows, axis, 1);
  return stretched(call, rows, by, operand, 0, 0);
}

Length length_gemm(RangeCall& call, const Rows& rows) {
  const Tensor* weights = call.value(1, kMostWeights);
  const AbsTensor& a = call.in(0);
  const double alpha = call.real("alpha"), beta = call.real("beta");
  if (!is_weight_matrix(weights) || !a.ranked || a.rank() != 2 || !call.out_type(0).ranked) return {};
  if (!has_axis(rows.axes, 1) || call.has_attr("broadcast") || !call.hull(1).is_finite()) return {};
  std::uint32_t axes = rows.axes;
  if (call.integer("transA") != 0) axes = (rows.axes & 1U) << 1U | (rows.axes >> 1U & 1U);
  const double operand = call.length(0, {.axes = axes});
  if (!(operand < kInf)) return {};
  Stretch by = stretch_of(matrix_of(*weights, call.integer("transB") != 0), rows, 1, alpha);
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
  const double constant = size_of(affine.rest) * std::sqrt(count_along(call.out_type(0), rows.axes & ~2U));
  return {.rows = with_error(moved + constant, 16 * unit_roundoff(call.out_dtype(0)), 0, 1)};
}

}  // namespace finity
