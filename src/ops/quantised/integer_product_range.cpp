#include "ops/quantised/integer_product_range.h"

#include <algorithm>
#include <cmath>

#include "ops/linear/gemm_attrs.h"
#include "ops/linear/matmul_range.h"
#include "ops/shared/range_rules.h"
#include "ops/windows/conv_range.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr DType kFloat = DType::float32;

// Products with factors that are kept wide, added and rounded in another order: a few units outside.
Range loosened(const Range& range, int ulps = 2) { return outward(kFloat, range, ulps); }

Range zero_point(const RangeCall& call, std::size_t input) {
  return call.has_range(input) ? call.hull(input) : point(0);
}

// x - zero for every cell, as numbers of 32 bits (floats of 8 bits: float32).
AbsTensor centered(const AbsTensor& x, const Range& zero) {
  const DType dtype = is_float(x.dtype) ? kFloat : DType::int32;
  return map_cells(x, dtype, [&](const Range& cell) { return subtract(dtype, cell, zero); });
}

// A quantized operand: its centered range, and its elements with one zero point per column where all are known.
struct QuantizedOperand {
  AbsTensor range = {};
  std::optional<Weights> weights = {};
  std::vector<double> offsets = {};

  QuantizedOperand(RangeCall& call, std::size_t input, std::size_t zero, std::int64_t columns)
      : range(centered(call.in(input), zero_point(call, zero))) {
    weights = weights_of(call, input);
    if (!weights || !call.has_range(zero)) return;
    const Tensor* points = call.value(zero, 1 << 22);
    const bool fits = points != nullptr && (points->size() == 1 || points->size() == columns);
    if (fits) offsets = elements<double>(*points);
    else weights.reset();
  }
  ContractOperand operand() const { return {&range, weights ? &*weights : nullptr, offsets}; }
};

// Columns of a matrix operand that a vector of parameters belongs to: -1 when there are batches.
std::int64_t matrix_columns(const AbsTensor& x, bool rows) {
  if (!x.ranked || x.rank() != 2) return -1;
  return x.sizes[rows ? 0 : 1];
}

Type like(const Type& type, DType dtype) {
  Type result = type;
  result.dtype = dtype;
  return result;
}

// Sums of products of inputs a and b, in int32 (float32 for 8-bit floats).
AbsTensor product_sums(RangeCall& call, std::size_t a, std::size_t a_zero, std::size_t b, std::size_t b_zero,
                       bool flip_a = false, bool flip_b = false, const AbsTensor* addend = nullptr) {
  const QuantizedOperand left(call, a, a_zero, matrix_columns(call.in(a), !flip_a));
  const QuantizedOperand right(call, b, b_zero, matrix_columns(call.in(b), flip_b));
  MatMulOperand first{left.operand(), matrix_order(left.range.rank(), flip_a)};
  const MatMulOperand second{right.operand(), matrix_order(right.range.rank(), flip_b)};
  if (right.weights) first.operand.weights = nullptr;
  Contracted product = matmul_sums(call, first, second);
  if (addend != nullptr) add_tensor(product.sums, *addend, 1);
  return rounded(call, like(call.out_type(0), left.range.dtype), product.sums);
}

AbsTensor convolution_sums(RangeCall& call, std::size_t x, std::size_t x_zero, std::size_t w, std::size_t w_zero,
                           std::size_t bias) {
  const AbsTensor input = centered(call.in(x), zero_point(call, x_zero));
  const std::int64_t channels = call.in(w).ranked && call.in(w).rank() > 0 ? call.in(w).sizes[0] : -1;
  const QuantizedOperand weights(call, w, w_zero, channels);
  Contracted result = conv_sums(call, input, weights.operand(), conv_spec(call, call.in(w)), call.out_type(0));
  if (call.has_range(bias)) add_channels(result.sums, call.in(bias));
  return rounded(call, like(call.out_type(0), DType::int32), result.sums);
}

}  // namespace

Range requantized(DType dtype, const Range& v, const Range& zero_point) {
  if (v.is_empty()) return {};
  const double least = lowest_finite(dtype), most = max_finite(dtype);
  if (!v.is_finite() || !zero_point.is_finite()) {
    Range all = any_finite(dtype);
    all.nan = is_float(dtype) && float_format(dtype).nan;
    return all;
  }
  // Implementations differ by a unit in how they round.
  const double lo = std::floor(v.lo) - 1 + zero_point.lo, hi = std::ceil(v.hi) + 1 + zero_point.hi;
  if (is_float(dtype)) {
    const Range shifted = from_bounds(dtype, std::clamp(v.lo + zero_point.lo, least, most),
                                      std::clamp(v.hi + zero_point.hi, least, most), 1);
    return shifted.finite();
  }
  return from_bounds(dtype, std::clamp(lo, least, most), std::clamp(hi, least, most));
}

// ---- integer results -----------------------------------------------------------------

void range_matmul_integer(RangeCall& call) { call.out(0, product_sums(call, 0, 2, 1, 3)); }

void range_conv_integer(RangeCall& call) {
  constexpr std::size_t kNone = 99;
  call.out(0, convolution_sums(call, 0, 2, 1, 3, kNone));
}

// ---- quantized results ---------------------------------------------------------------

namespace {

// sums * (a_scale * b_scale / y_scale), then quantized.
AbsTensor requantized(const RangeCall& call, const AbsTensor& sums, const Range& scales, std::size_t y_scale,
                      std::size_t y_zero) {
  const Range factor = loosened(divide(kFloat, scales, call.hull(y_scale)));
  const Range zero = zero_point(call, y_zero);
  const DType dtype = call.out_dtype(0);
  return map_cells(sums, dtype, [&](const Range& sum) {
    return requantized(dtype, loosened(multiply(kFloat, loosened(sum, 1), factor)), zero);
  });
}

Range scale_product(const RangeCall& call, std::size_t a, std::size_t b) {
  return loosened(multiply(kFloat, call.hull(a), call.hull(b)));
}

// sums * scales + bias in float32, rounded into the result's dtype.
AbsTensor scaled(const RangeCall& call, const AbsTensor& sums, const Range& scales, std::size_t bias) {
  const DType dtype = call.out_dtype(0);
  const Range added = call.has_range(bias) ? call.hull(bias) : point(0);
  return map_cells(sums, dtype, [&](const Range& sum) {
    const Range product = loosened(multiply(kFloat, loosened(sum, 1), scales));
    const Range total = loosened(add(kFloat, product, added));
    if (dtype == kFloat || !total.has_finite()) return total;
    Range narrow = from_bounds(dtype, total.lo, total.hi, 1);
    narrow.nan |= total.nan;
    narrow.pinf |= total.pinf;
    narrow.ninf |= total.ninf;
    return narrow;
  });
}

}  // namespace

void range_qlinear_matmul(RangeCall& call) {
  const AbsTensor sums = product_sums(call, 0, 2, 3, 5);
  call.out(0, requantized(call, sums, scale_product(call, 1, 4), 6, 7));
}

void range_qlinear_conv(RangeCall& call) {
  // Channels behind the spatial axes are not modelled by eval either.
  if (call.integer("channels_last", 0) != 0) return call.out(0, any_finite(call.out_dtype(0)));
  const AbsTensor sums = convolution_sums(call, 0, 2, 3, 5, 8);
  call.out(0, requantized(call, sums, scale_product(call, 1, 4), 6, 7));
}

void range_qgemm(RangeCall& call) {
  const AbsTensor* addend = call.has_range(6) ? &call.in(6) : nullptr;
  const GemmAttrs attrs = read_gemm(call);
  const AbsTensor sums = product_sums(call, 0, 2, 3, 5, attrs.turned_a, attrs.turned_b, addend);
  const Range scales = loosened(multiply(kFloat, scale_product(call, 1, 4), point(static_cast<float>(attrs.alpha))));
  constexpr std::size_t kNone = 99;
  call.out(0, call.has_range(8) ? requantized(call, sums, scales, 7, 8) : scaled(call, sums, scales, kNone));
}

void range_matmul_integer_to_float(RangeCall& call) {
  const AbsTensor sums = product_sums(call, 0, 4, 1, 5);
  call.out(0, scaled(call, sums, scale_product(call, 2, 3), 6));
}

// A as it is after quantization on the fly: at most one step of 1/255 of its extent away.
void range_dynamic_quantize_matmul(RangeCall& call) {
  const Range a = call.hull(0);
  if (a.is_empty()) return call.out(0, a);
  const double lo = std::min(a.lo, 0.0), hi = std::max(a.hi, 0.0);
  const double step = (hi - lo) / 255 * (1 + 1e-5) + min_subnormal(kFloat);
  if (!a.is_finite() || !(hi - lo < max_finite(kFloat))) return call.top(0);
  AbsTensor levels = uniform(call.in_type(0), Range{.lo = -255, .hi = 255, .integer = true});
  AbsTensor numbers = uniform(call.in_type(0), Range{.lo = lo - step, .hi = hi + step});
  levels.dtype = DType::int32;
  const QuantizedOperand right(call, 1, 3, matrix_columns(call.in(1), false));
  const SumGrid integers = matmul_sums(call, {{&levels, nullptr, {}}, {}}, {right.operand(), {}}).sums;
  const AbsTensor wrapped = rounded(call, like(call.out_type(0), DType::int32), integers);
  const bool wraps = !(wrapped.hull().magnitude() < max_finite(DType::int32));
  const SumGrid sums = matmul_sums(call, {{&numbers, nullptr, {}}, {}}, {right.operand(), {}}).sums;
  const AbsTensor products = rounded(call, call.out_type(0), sums);
  call.out(0, wraps ? uniform(call.out_type(0), top(kFloat)) : scaled(call, products, call.hull(2), 4));
}

}  // namespace finity
