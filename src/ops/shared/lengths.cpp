#include "ops/shared/lengths.h"

#include <algorithm>
#include <cmath>

#include "ops/linear/dot_range.h"
#include "ops/reduce/reduced_axes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// What the arithmetic of the bounds themselves may have lost.
constexpr double kOwnSlack = 1e-9;

// Largest Euclidean length of any number of groups of elements.
double longest_group(const std::vector<double>& values, const Groups& groups) {
  double longest = 0;
  for (std::size_t group = 0; group < groups.starts.size(); ++group) {
    double squares = 0;
    for (std::int64_t i = 0; i < groups.length(); ++i)
      squares += values[groups.at(group, i)] * values[groups.at(group, i)];
    if (!(squares <= longest)) longest = squares;
  }
  return std::sqrt(longest) * (1 + kOwnSlack) + 3e-162 * std::sqrt(static_cast<double>(values.size()));
}

}  // namespace

std::uint32_t all_but_first(std::size_t rank) { return rank < 2 || rank > 31 ? 0 : ((1U << rank) - 1U) & ~1U; }

double largest_factor(const Rows& rows) {
  double most = rows.scale.empty() ? 1 : 0;
  for (const double factor : rows.scale) most = std::max(most, std::abs(factor));
  return most;
}

Rows without_scale(const Rows& rows) { return {.axes = rows.axes}; }

Rows with_scale(const Rows& rows, std::span<const double> factors, std::size_t axis, std::vector<double>& product) {
  product.assign(factors.begin(), factors.end());
  const bool same = !rows.scale.empty() && rows.scaled == axis && rows.scale.size() == product.size();
  for (std::size_t i = 0; i < product.size(); ++i) product[i] *= same ? rows.scale[i] : largest_factor(rows);
  return {.axes = rows.axes, .scale = product, .scaled = axis, .levels = rows.levels};
}

double count_along(const Type& type, std::uint32_t axes) {
  double count = 1;
  if (!type.ranked) return kInf;
  for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
    if (!has_axis(axes, axis)) continue;
    count *= type.shape[axis].known() ? static_cast<double>(type.shape[axis].size) : kManyElements;
  }
  return count;
}

double length_by_elements(const AbsTensor& x, const Rows& rows) {
  const Range hull = x.hull();
  if (!x.ranked || !hull.is_finite() || !is_float(x.dtype)) return kInf;
  const double count = x.most_count(rows.axes);
  double factor = std::sqrt(count) * largest_factor(rows);
  const bool inside = !rows.scale.empty() && rows.scaled < x.rank() && has_axis(rows.axes, rows.scaled);
  if (inside && x.sizes[rows.scaled] == static_cast<std::int64_t>(rows.scale.size())) {
    double squares = 0;
    for (const double one : rows.scale) squares += one * one;
    factor = std::sqrt(count / static_cast<double>(rows.scale.size()) * squares);
  }
  return hull.magnitude() * factor * (1 + kOwnSlack);
}

double exact_length(const Tensor& tensor, const Rows& rows) {
  constexpr std::int64_t kMost = 1 << 22;
  if (tensor.size() > kMost || !is_float(tensor.dtype()) || tensor.rank() > 31) return kInf;
  AxisSet axes(tensor.rank());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = has_axis(rows.axes, axis);
  return longest_group(elements<double>(tensor), group_elements(tensor.dims(), axes)) * largest_factor(rows);
}

double operand_length(RangeCall& call, std::size_t i, const Rows& rows) {
  const Type& own = call.in_type(i);
  const Type& result = call.out_type(0);
  if (!call.has_range(i) || !own.ranked || !result.ranked || own.shape.size() > result.shape.size()) return kInf;
  const std::size_t missing = result.shape.size() - own.shape.size();
  double repeats = 1;
  Rows inner = without_scale(rows);
  inner.axes = rows.axes >> missing;
  for (std::size_t axis = 0; axis < result.shape.size(); ++axis) {
    if (!has_axis(rows.axes, axis)) continue;
    const bool whole = axis >= missing && (surely_equal(own.shape[axis - missing], result.shape[axis]));
    if (!whole) repeats *= count_along(result, 1U << axis);
  }
  const bool keeps = !rows.scale.empty() && rows.scaled >= missing &&
                     own.shape[rows.scaled - missing] == Dim::of(static_cast<std::int64_t>(rows.scale.size()));
  if (keeps) {
    inner.scale = rows.scale;
    inner.scaled = rows.scaled - missing;
    inner.levels = rows.levels + 1;
  }
  return call.length(i, inner) * std::sqrt(repeats) * (keeps ? 1 : largest_factor(rows)) * (1 + kOwnSlack);
}

double with_error(double length, double relative, double absolute, double count) {
  return (length * (1 + relative) + absolute * std::sqrt(count)) * (1 + kOwnSlack);
}

double sum_error(const RangeCall& call, DType dtype, double terms) {
  double worst = 0;
  for (const DType accumulator : call.accumulators(dtype)) worst = std::max(worst, dot_error(accumulator, terms));
  return worst * (1 + kOwnSlack) + 4 * unit_roundoff(dtype);
}

double sum_underflow(DType dtype, double terms) { return (terms + 2) * min_subnormal(dtype); }

}  // namespace finity
