// Lengths of what is computed element by element, moved, or pooled.
#include <algorithm>
#include <cmath>

#include "ops/elementwise/activation_gradient.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/windows/window.h"
#include "tensor/convert.h"

namespace finity {

namespace {

double result_count(const RangeCall& call, const Rows& rows) { return count_along(call.out_type(0), rows.axes); }

// A library function: off by units of the result, or of 1 where its formula cancels.
Length gained(RangeCall& call, const Rows& rows, double gain) {
  const DType dtype = call.out_dtype(0);
  const double units = 8.0 * call.ulps() + 8;
  const double absolute = units * (dtype == DType::float64 ? 0x1p-53 : 0x1p-24) + 2 * min_subnormal(dtype);
  const double length = operand_length(call, 0, rows) * gain;
  return {.rows = with_error(length, units * unit_roundoff(dtype), absolute * largest_factor(rows),
                             result_count(call, rows))};
}

}  // namespace

// ---- one operand -------------------------------------------------------------------------

Length length_not_larger(RangeCall& call, const Rows& rows) { return gained(call, rows, 1); }

Length length_leaky(RangeCall& call, const Rows& rows) {
  return gained(call, rows, std::max(1.0, std::abs(call.real("alpha"))));
}

Length length_selu(RangeCall& call, const Rows& rows) {
  const double alpha = std::abs(selu_alpha(call)), gamma = std::abs(selu_gamma(call));
  return gained(call, rows, gamma * std::max(1.0, alpha));
}

Length length_prelu(RangeCall& call, const Rows& rows) {
  const Range slope = call.hull(1);
  return slope.is_finite() ? gained(call, rows, std::max(1.0, slope.magnitude())) : Length{};
}

// Limits on either side of zero bring numbers nearer to it.
Length length_clip(RangeCall& call, const Rows& rows) {
  const auto limit = [&](std::size_t i, std::string_view name, double none) {
    if (call.has_range(i)) return call.hull(i);
    return call.has_attr(name) ? point(call.real(name)) : point(none);
  };
  const Range least = limit(1, "min", lowest_finite(call.out_dtype(0)));
  const Range most = limit(2, "max", max_finite(call.out_dtype(0)));
  const bool around = least.is_finite() && most.is_finite() && least.hi <= 0 && most.lo >= 0;
  return around ? gained(call, rows, 1) : Length{};
}

Length length_cast(RangeCall& call, const Rows& rows) {
  if (!is_float(call.in_dtype(0)) || !is_float(call.out_dtype(0))) return {};
  return gained(call, rows, 1);
}

// ---- several operands ----------------------------------------------------------------------

Length length_sum(RangeCall& call, const Rows& rows) {
  if (broadcasts_legacy(call)) return {};
  double total = 0;
  for (std::size_t i = 0; i < call.input_count(); ++i) total += operand_length(call, i, rows);
  const double length = with_error(total, sum_error(call, call.out_dtype(0), static_cast<double>(call.input_count())),
                                   0, result_count(call, rows));
  return {.rows = length, .reach = length};
}

Length length_mean(RangeCall& call, const Rows& rows) {
  const Length total = length_sum(call, rows);
  const DType dtype = call.out_dtype(0);
  const double length = total.rows / static_cast<double>(call.input_count());
  return {.rows = with_error(length, 4 * unit_roundoff(dtype), min_subnormal(dtype) * largest_factor(rows),
                             result_count(call, rows)),
          .reach = total.reach};
}

namespace {

// The axis along which a known factor differs, the others being of size 1; the rank of the result when there is none.
std::size_t channel_axis(const RangeCall& call, const Tensor& factor) {
  const std::size_t rank = call.out_type(0).shape.size();
  std::size_t axis = rank;
  for (std::size_t i = 0; i < factor.rank() && factor.rank() <= rank; ++i) {
    if (factor.dim(i) == 1) continue;
    if (axis != rank) return rank;
    axis = i + rank - factor.rank();
  }
  return axis;
}

// Of operand i times the other one.
double factor_length(RangeCall& call, std::size_t i, const Rows& rows) {
  constexpr std::int64_t kMost = 1 << 16;
  constexpr int kLevels = 8;
  const Range factor = call.hull(1 - i);
  if (!factor.is_finite()) return kInf;
  // No factor is larger than its row.
  const double largest = std::min(factor.magnitude(), operand_length(call, 1 - i, without_scale(rows)));
  const double least = operand_length(call, i, rows) * largest;
  const Tensor* known = call.value(1 - i, kMost);
  if (known == nullptr || rows.levels > kLevels || known->size() > kMost) return least;
  const std::size_t axis = channel_axis(call, *known);
  if (axis >= call.out_type(0).shape.size()) return least;
  std::vector<double> product;
  return std::min(least, operand_length(call, i, with_scale(rows, elements<double>(*known), axis, product)));
}

}  // namespace

Length length_product(RangeCall& call, const Rows& rows) {
  if (broadcasts_legacy(call) || !call.out_type(0).ranked || !call.has_range(0) || !call.has_range(1)) return {};
  const DType dtype = call.out_dtype(0);
  const double length = std::min(factor_length(call, 0, rows), factor_length(call, 1, rows));
  const double total = with_error(length, 2 * unit_roundoff(dtype), min_subnormal(dtype) * largest_factor(rows),
                                  result_count(call, rows));
  return {.rows = total, .reach = total};
}

Length length_quotient(RangeCall& call, const Rows& rows) {
  if (broadcasts_legacy(call) || !call.has_range(1)) return {};
  const Range divisor = call.hull(1);
  const double least = divisor.least_magnitude();
  if (!divisor.is_finite() || divisor.may_be_zero() || !(least > 0)) return {};
  const DType dtype = call.out_dtype(0);
  const double total = with_error(operand_length(call, 0, rows) / least, 2 * unit_roundoff(dtype),
                                  min_subnormal(dtype) * largest_factor(rows), result_count(call, rows));
  return {.rows = total, .reach = total};
}

// Every element is one of some operand.
Length length_extreme(RangeCall& call, const Rows& rows) {
  double squares = 0;
  for (std::size_t i = 0; i < call.input_count(); ++i) squares += std::pow(operand_length(call, i, rows), 2);
  return {.rows = with_error(std::sqrt(squares), 0, 0, 0)};
}

Length length_where(RangeCall& call, const Rows& rows) {
  const double a = operand_length(call, 1, rows), b = operand_length(call, 2, rows);
  return {.rows = with_error(std::sqrt(a * a + b * b), 0, 0, 0)};
}

// ---- moved ---------------------------------------------------------------------------------

namespace {

// Of operand i, whose axes are those of the result.
double same_axes_length(RangeCall& call, std::size_t i, const Rows& rows) {
  const bool fits = call.has_range(i) && call.in(i).ranked && call.out_type(0).ranked &&
                    call.in(i).rank() == call.out_type(0).shape.size();
  if (!fits) return kInf;
  // Sizes may differ, so factors per index no longer fit where they do.
  const bool scaled = !rows.scale.empty() && rows.scaled < call.in(i).rank() &&
                      call.in(i).sizes[rows.scaled] == static_cast<std::int64_t>(rows.scale.size());
  if (!scaled) return call.length(i, without_scale(rows)) * largest_factor(rows);
  Rows inner = rows;
  ++inner.levels;
  return call.length(i, inner);
}

}  // namespace

Length length_concat(RangeCall& call, const Rows& rows) {
  const Type& type = call.out_type(0);
  if (!type.ranked || type.shape.empty()) return {};
  const std::size_t axis = normalize_axis(call.integer("axis", 1), type.shape.size());
  const bool together = axis < 32 && (rows.axes >> axis & 1U) != 0;
  double squares = 0, start = 0;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i) || !call.in(i).ranked || call.in(i).rank() != type.shape.size()) return {};
    const std::int64_t size = call.in(i).sizes[axis];
    Rows part = rows;
    const bool cut = !rows.scale.empty() && rows.scaled == axis;
    if (cut && !(size >= 0 && start + static_cast<double>(size) <= static_cast<double>(rows.scale.size()))) return {};
    if (cut) part.scale = rows.scale.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(size));
    start += static_cast<double>(size);
    const double square = std::pow(cut && size == 0 ? 0 : same_axes_length(call, i, part), 2);
    squares = together ? squares + square : std::max(squares, square);
  }
  return {.rows = with_error(std::sqrt(squares), 0, 0, 0)};
}

Length length_part(RangeCall& call, const Rows& rows) {
  // Which factor meets which element is not followed.
  const double length = same_axes_length(call, 0, without_scale(rows)) * largest_factor(rows);
  return {.rows = length};
}

Length length_reshape(RangeCall& call, const Rows& rows) {
  const Type& from = call.in_type(0);
  const Type& to = call.out_type(0);
  if (!from.ranked || !to.ranked || from.shape.size() < 2 || to.shape.size() < 2) return {};
  const bool fits = rows.axes == all_but_first(to.shape.size()) && surely_equal(from.shape[0], to.shape[0]);
  if (!fits || all_but_first(from.shape.size()) == 0) return {};
  return {.rows = call.length(0, {.axes = all_but_first(from.shape.size())}) * largest_factor(rows)};
}

Length length_transpose(RangeCall& call, const Rows& rows) {
  const std::size_t rank = call.in_type(0).shape.size();
  std::vector<std::int64_t> order = call.integers("perm");
  for (std::size_t i = 0; order.size() < rank; ++i) order.push_back(static_cast<std::int64_t>(rank - 1 - i));
  if (!call.in_type(0).ranked || order.size() != rank || rank > 31) return {};
  Rows inner{.scale = rows.scale, .levels = rows.levels + 1};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t source = normalize_axis(order[i], rank);
    if ((rows.axes >> i & 1U) != 0) inner.axes |= 1U << source;
    if (rows.scaled == i) inner.scaled = source;
  }
  return {.rows = call.length(0, inner)};
}

// Margins of zeros add nothing.
Length length_pad(RangeCall& call, const Rows& rows) {
  const Range margin = call.has_range(2) ? call.hull(2) : point(call.real("value", 0));
  const bool zeros = margin.is_point() && margin.lo == 0;
  if (call.text("mode") != "constant" || !zeros) return {};
  return length_part(call, rows);
}

// ---- pools ---------------------------------------------------------------------------------

namespace {

// Of the operand of a pool. Factors per channel stay with their channel, those per position do not.
double pooled_length(RangeCall& call, const Rows& rows) {
  if (rows.scaled < 2) return same_axes_length(call, 0, rows);
  return same_axes_length(call, 0, without_scale(rows)) * largest_factor(rows);
}

struct Overlap {
  bool known = false;
  double windows = 1;  // that an element is in, at most
  double least = 1;    // elements a window has, at least
  double most = 1;
};

Overlap overlap_of(const RangeCall& call, const Rows& rows) {
  const AbsTensor& x = call.in(0);
  Overlap result;
  if (!x.ranked || x.rank() < 3 || x.rank() > 31) return result;
  const std::uint32_t spatial = ((1U << x.rank()) - 1U) & ~3U;
  if ((rows.axes & spatial) != spatial) return result;
  const Window window = read_window(call, x.rank() - 2);
  const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
  for (const WindowAxis& axis : window.axes) {
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1) return result;
    const double reach = static_cast<double>((axis.kernel - 1) * axis.dilation + 1);
    const double windows = std::ceil(reach / static_cast<double>(axis.stride));
    result.windows *= std::min(windows, static_cast<double>(axis.kernel));
    const bool whole = !same && axis.pad_begin == 0 && axis.pad_end == 0 && !window.ceil_mode;
    result.least *= whole ? static_cast<double>(axis.kernel) : 1;
    result.most *= static_cast<double>(axis.kernel);
  }
  result.known = true;
  return result;
}

}  // namespace

// The largest element of a window is one of its elements.
Length length_max_pool(RangeCall& call, const Rows& rows) {
  const Overlap overlap = overlap_of(call, rows);
  if (!overlap.known) return {};
  return {.rows = with_error(pooled_length(call, rows) * std::sqrt(overlap.windows), 0, 0, 0)};
}

// The square of a mean is at most the mean of the squares.
Length length_average_pool(RangeCall& call, const Rows& rows) {
  const Overlap overlap = overlap_of(call, rows);
  if (!overlap.known) return {};
  const DType dtype = call.out_dtype(0);
  // Zeros of the padding count as elements, except those that only ceil_mode adds.
  const bool whole = call.integer("count_include_pad") != 0 && call.integer("ceil_mode", 0) == 0;
  const double operand = pooled_length(call, rows);
  const double error = sum_error(call, dtype, overlap.most + 1);
  const double length = operand * std::sqrt(overlap.windows / (whole ? overlap.most : overlap.least));
  // Rounding is relative to the mean of the magnitudes, whose length is bounded alike.
  const double total = with_error(length, error, sum_underflow(dtype, overlap.most) * largest_factor(rows),
                                  count_along(call.out_type(0), rows.axes));
  return {.rows = total, .reach = operand * std::sqrt(overlap.most) * (1 + error)};
}

namespace {

// Rows of the operand of a pool over everything behind the channels.
Rows pooled_rows(const RangeCall& call, const Rows& rows) {
  Rows inner = rows;
  inner.axes |= ((1U << call.in(0).rank()) - 1U) & ~3U;
  return inner;
}

bool has_positions(const RangeCall& call) {
  const AbsTensor& x = call.in(0);
  return x.ranked && x.rank() >= 3 && x.rank() <= 31;
}

}  // namespace

Length length_global_max_pool(RangeCall& call, const Rows& rows) {
  if (!has_positions(call)) return {};
  return {.rows = pooled_length(call, pooled_rows(call, rows))};
}

Length length_global_average_pool(RangeCall& call, const Rows& rows) {
  if (!has_positions(call)) return {};
  const DType dtype = call.out_dtype(0);
  const std::uint32_t positions = ((1U << call.in(0).rank()) - 1U) & ~3U;
  const double least = std::max(call.in(0).least_count(positions), 1.0), most = call.in(0).most_count(positions);
  const double operand = pooled_length(call, pooled_rows(call, rows));
  const double error = sum_error(call, dtype, most + 1);
  const double total = with_error(operand / std::sqrt(least), error, sum_underflow(dtype, most) * largest_factor(rows),
                                  count_along(call.out_type(0), rows.axes));
  return {.rows = total, .reach = operand * std::sqrt(most) * (1 + error)};
}

}  // namespace finity
