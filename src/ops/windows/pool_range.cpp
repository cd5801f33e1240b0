#include "ops/windows/pool_range.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/reduce/reduce_range.h"
#include "ops/shared/lengths.h"
#include "ops/shared/range_groups.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relations.h"
#include "ops/table/op.h"
#include "ops/windows/pool_windows.h"
#include "ops/windows/window.h"

namespace finity {

namespace {

AxisSet spatial_axes(const AbsTensor& x) {
  AxisSet axes(x.rank(), true);
  for (std::size_t i = 0; i < 2 && i < axes.size(); ++i) axes[i] = false;
  return axes;
}

// How many taps of a window lie inside the input, and inside it with its padding.
struct WindowCounts {
  double least = 1;    // inside
  double most = 1;     //
  double counted = 1;  // with padding, at most
  bool may_be_empty = false;
};

// Every window has a tap inside unless pads or gaps are as wide as the window.
bool reaches_inside(const PlacedAxis& axis) {
  for (std::int64_t output = 0; output < axis.output; ++output) {
    if (taps_at(axis, output).count == 0) return false;
  }
  return true;
}

bool may_miss(const Window& window, std::size_t i, std::int64_t input) {
  if (input == 0) return true;
  const WindowAxis& axis = window.axes[i];
  const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
  if (!same && axis.pad_begin == 0 && axis.pad_end == 0 && !window.ceil_mode) return false;
  if (axis.dilation == 1 && (same || std::max(axis.pad_begin, axis.pad_end) < axis.kernel)) return false;
  constexpr std::int64_t kLongest = 1 << 16;
  return input < 0 || input > kLongest || !reaches_inside(place(window, i, input));
}

WindowCounts window_counts(const Call& call, const AbsTensor& x) {
  const std::size_t rank = x.ranked ? x.rank() : call.integers("kernel_shape").size() + 2;
  const Window window = read_window(call, rank - 2);
  const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
  WindowCounts counts;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const WindowAxis& axis = window.axes[i];
    const std::int64_t input = x.ranked ? x.sizes[i + 2] : -1;
    const std::int64_t pads = same ? axis.kernel : axis.pad_begin + axis.pad_end;
    const bool whole = pads == 0 && !window.ceil_mode;
    std::int64_t least = 1;
    if (whole) least = axis.kernel;
    else if (axis.dilation == 1 && !window.ceil_mode) least = std::max<std::int64_t>(1, axis.kernel - pads);
    const std::int64_t most = input >= 0 ? std::min(axis.kernel, std::max<std::int64_t>(input, 1)) : axis.kernel;
    counts.least *= static_cast<double>(std::min(least, most));
    counts.most *= static_cast<double>(most);
    counts.counted *= static_cast<double>(axis.kernel);
    counts.may_be_empty |= may_miss(window, i, input);
  }
  return counts;
}

using WindowRange = std::function<Range(const Range& elements)>;

// The result's cells: those of images and channels, everything inside joined.
AbsTensor pooled(RangeCall& call, const WindowRange& f) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  if (!x.ranked || x.rank() < 3) return uniform(call.out_type(0), f(x.hull()));
  AbsTensor result =
      reduced_cells(x, spatial_axes(x), true, dtype, [&](const Group& group) { return f(group.hull()); });
  const Dims sizes = sizes_of(call.out_type(0));
  if (sizes.size() == result.rank()) result.sizes = sizes;
  return result;
}

}  // namespace

// ---- maximum -----------------------------------------------------------------

namespace {

// Blocks of a spatial axis that every window has a tap in.
std::vector<bool> met_by_all(const PlacedAxis& axis, const AbsTensor& x, std::size_t at) {
  std::vector<bool> met(x.blocks(at), true);
  for (std::int64_t output = 0; output < axis.output; ++output) {
    const Taps taps = taps_at(axis, output);
    for (std::size_t block = 0; block < met.size(); ++block) {
      const std::int64_t begin = x.block_start(at, block), end = begin + x.block_length(at, block);
      // The first tap at or behind the block's start.
      const std::int64_t steps = begin <= taps.first ? 0 : (begin - taps.first + axis.dilation - 1) / axis.dilation;
      met[block] = met[block] && steps < taps.count && taps.first + steps * axis.dilation < end;
    }
  }
  return met;
}

// An input that was padded with very low numbers: a maximum over windows that all reach what is inside is not low.
void use_inside(const Call& call, const AbsTensor& x, AbsTensor& result) {
  constexpr std::int64_t kLongest = 1 << 12;
  if (!x.ranked || x.rank() < 3 || !x.cut() || result.rank() != x.rank()) return;
  if (result.blocks(0) != x.blocks(0) || result.blocks(1) != x.blocks(1)) return;
  const Window window = read_window(call, x.rank() - 2);
  std::vector<std::vector<bool>> met;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const std::int64_t input = x.sizes[i + 2];
    if (x.blocks(i + 2) == 1) {
      met.push_back({true});
      continue;
    }
    if (input < 0 || input > kLongest) return;
    met.push_back(met_by_all(place(window, i, input), x, i + 2));
  }
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) {
    const std::vector<std::size_t> place = cell_place(x, cell);
    bool always = !x.cells[cell].ninf && x.cells[cell].has_finite();
    for (std::size_t i = 0; i < met.size(); ++i) always = always && met[i][place[i + 2]];
    Range& most = result.cells[place[0] * result.blocks(1) + place[1]];
    if (!always || !most.has_finite()) continue;
    most.lo = std::max(most.lo, std::min(x.cells[cell].lo, most.hi));
    most.ninf = false;
  }
}

}  // namespace

namespace {

// An optimiser that takes the zeros of a Pad for padding of the pool's own: what is inside is all there is.
void join_unpadded(const RangeCall& call, AbsTensor& result) {
  const Upstream pad = call.may(Way::leaves_out_padding) ? call.upstream(0) : Upstream();
  if (pad.op() == nullptr || pad.op()->traits.merge != Merge::padding) return;
  const AbsTensor* inside = pad.input(0).range();
  if (inside == nullptr) return;
  for (Range& cell : result.cells) cell = join(cell, inside->hull());
}

}  // namespace

void range_max_pool(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const bool empty = window_counts(call, x).may_be_empty;
  if (empty) call.site("FN306", 0, x.hull(), true);
  const bool fills = empty && !is_float(x.dtype);
  const bool lowest = call.may(Way::lowest_for_nothing) && is_float(x.dtype);
  AbsTensor result = pooled(call, [&](const Range& each) {
    const bool low = fills || (lowest && (each.ninf || each.nan));
    Range result = low ? join(each, point(lowest_finite(x.dtype))) : each;
    result.ninf |= lowest && each.nan;  // in float16
    return result;
  });
  if (!empty) use_inside(call, x, result);
  join_unpadded(call, result);
  call.out(0, std::move(result));
  if (!call.has_output(1)) return;
  constexpr std::uint32_t kAll = ~std::uint32_t{0};
  const double last = std::min(x.most_count(kAll) - 1, max_finite(DType::int64));
  call.out(1, Range{.lo = empty ? -1.0 : 0.0, .hi = std::max(last, 0.0), .integer = true});
}

void range_global_max_pool(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  ask_for_elements(call, x, x.ranked ? std::optional(Reduced{spatial_axes(x), true}) : std::nullopt);
  if (x.ranked) call.out(0, reduced_max(call, x, {spatial_axes(x), true}));
  else range_shuffled(call);
}

void range_max_unpool(RangeCall& call) { call.out(0, join(call.hull(0), point(0))); }

// ---- mean --------------------------------------------------------------------

namespace {

// The windows, where a relation can describe them.
std::optional<Windows> windows_of(const Call& call, std::size_t rank) {
  const Window window = read_window(call, rank);
  if (rank > 2 || window.auto_pad != AutoPad::notset || window.ceil_mode) return std::nullopt;
  Windows result{.counts_padding = call.integer("count_include_pad") != 0};
  const auto fits = [](std::int64_t value) { return value >= 0 && value < 256; };
  for (std::size_t i = 0; i < rank; ++i) {
    const WindowAxis& axis = window.axes[i];
    const bool small = fits(axis.kernel) && fits(axis.stride) && fits(axis.pad_begin) && fits(axis.pad_end);
    if (axis.dilation != 1 || !small || axis.kernel == 0) return std::nullopt;
    result.axes[i] = {static_cast<std::uint8_t>(axis.kernel), static_cast<std::uint8_t>(axis.stride),
                      static_cast<std::uint8_t>(axis.pad_begin), static_cast<std::uint8_t>(axis.pad_end)};
  }
  return result;
}

// E[x^2] - E[x]^2 over windows is not negative either. Not aligned: a window's mean has no element of the source.
void add_window_means(const RangeCall& call, const AbsTensor& x, double terms, AbsTensor& result) {
  const auto windows = x.ranked && x.rank() > 2 && is_float(x.dtype) ? windows_of(call, x.rank() - 2) : std::nullopt;
  if (!windows) return;
  const double error = sum_error(call, x.dtype, terms + 4);
  AggregateBound mean{.source = {x.identity, 0, false, *windows},
                      .of = Of::mean,
                      .relative = error,
                      .absolute = min_subnormal(x.dtype)};
  if (x.identity.valid()) result.relations.push_back(mean);
  for (const AggregateBound& square : each<AggregateBound>(x.relations)) {
    const bool own = square.of == Of::square && square.order == Order::equal && square.source.axes == 0;
    if (!own || !square.source.value.valid()) continue;
    mean.source.value = square.source.value;
    mean.of = Of::mean_square;
    mean.relative = error + square_error(x.dtype, square);
    mean.absolute = 4 * min_subnormal(x.dtype) + square.absolute;
    result.relations.push_back(mean);
  }
}

}  // namespace

void range_average_pool(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const WindowCounts counts = window_counts(call, call.in(0));
  const bool padding = call.integer("count_include_pad") != 0;
  const double share = padding ? counts.least / counts.counted : 1;
  if (counts.may_be_empty) call.site("FN306", 0, call.hull(0), true);
  AbsTensor result = pooled(call, [&](const Range& each) {
    Range mean = in_all_carriers(call, dtype, [&](DType carrier) {
      return group_mean(dtype, carrier, group_of(each, counts.least, counts.most));
    });
    // Zeros of the padding count, too: the mean is at least this share of what it is without them.
    if (share < 1 && mean.has_finite()) {
      const Range less = from_bounds(dtype, mean.lo * share, mean.hi * share, 2);
      mean.lo = std::min(mean.lo, less.lo);
      mean.hi = std::max(mean.hi, less.hi);
    }
    return counts.may_be_empty ? join(mean, point(0)) : mean;
  });
  add_window_means(call, call.in(0), counts.counted, result);
  call.out(0, std::move(result));
}

void range_global_average_pool(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  ask_for_elements(call, x, x.ranked ? std::optional(Reduced{spatial_axes(x), true}) : std::nullopt);
  const DType dtype = call.out_dtype(0);
  if (x.ranked) {
    AbsTensor mean = reduced_mean(call, x, {spatial_axes(x), true});
    // Some libraries make the mean of nothing 0.
    if (may_be_empty(x, spatial_axes(x)))
      mean = map_cells(mean, dtype, [](const Range& cell) { return join(cell, point(0)); });
    return call.out(0, std::move(mean));
  }
  call.out(0,
           in_all_carriers(call, dtype, [&](DType carrier) { return group_mean(dtype, carrier, some_elements(x)); }));
}

// ---- norm --------------------------------------------------------------------

namespace {

// (sum of |x|^p)^(1/p) of `least` to `most` elements.
Range norm_of(const RangeCall& call, DType dtype, DType carrier, const Group& group, double p) {
  const double u = unit_roundoff(carrier);
  const double ulps = 2.0 * call.ulps();
  const Group powers = mapped_parts(group, [&](const Range& x) {
    const Range size = absolute(carrier, x);
    Range result;
    if (size.has_finite()) {
      const double slack = (ulps + 2) * u;
      result = from_bounds(carrier, std::pow(size.lo, p) * (1 - slack), std::pow(size.hi, p) * (1 + slack), 1);
      result.lo = std::max(result.lo, 0.0);
    }
    result.nan |= x.nan;
    result.pinf |= size.pinf;
    return result;
  });
  const Range sum = group_sum(carrier, carrier, powers);
  Range result;
  if (sum.has_finite()) {
    const double slack = (ulps + 2) * u;
    result = from_bounds(dtype, std::pow(std::max(sum.lo, 0.0), 1 / p) * (1 - slack),
                         std::pow(std::max(sum.hi, 0.0), 1 / p) * (1 + slack), 1);
    result.lo = std::max(result.lo, 0.0);
  }
  result.nan |= sum.nan;
  result.pinf |= sum.pinf;
  return result;
}

}  // namespace

void range_lp_pool(RangeCall& call) {
  const auto p = pool_exponent(call.attrs());
  if (!p || !(*p > 0 && std::isfinite(*p))) {
    call.top(0);
    return;
  }
  const DType dtype = call.out_dtype(0);
  const WindowCounts counts = window_counts(call, call.in(0));
  call.out(0, pooled(call, [&](const Range& each) {
             const Group group = group_of(each, counts.least, counts.most);
             const Range norm =
                 in_all_carriers(call, dtype, [&](DType carrier) { return norm_of(call, dtype, carrier, group, *p); });
             return counts.may_be_empty ? join(norm, point(0)) : norm;
           }));
}

void range_global_lp_pool(RangeCall& call) {
  const auto p = pool_exponent(call.attrs());
  const AbsTensor& x = call.in(0);
  if (!p || !(*p > 0 && std::isfinite(*p))) {
    call.top(0);
    return;
  }
  const DType dtype = call.out_dtype(0);
  const auto norm = [&](const Group& group) {
    return in_all_carriers(call, dtype, [&](DType carrier) { return norm_of(call, dtype, carrier, group, *p); });
  };
  AbsTensor result = x.ranked ? reduced_cells(x, spatial_axes(x), true, dtype, norm)
                              : uniform(call.out_type(0), norm(some_elements(x)));
  if (!x.ranked || may_be_empty(x, spatial_axes(x)))
    result = map_cells(result, dtype, [](const Range& cell) { return join(cell, point(0)); });
  call.out(0, std::move(result));
}

}  // namespace finity
