// Ranges of layer-like normalisations, and what those per channel share with them.
#include "ops/norm/norm_range.h"

#include <algorithm>
#include <cmath>

#include "ops/norm/norm_attrs.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

// ---- channels --------------------------------------------------------------

ChannelParameter::ChannelParameter(RangeCall& call, std::size_t input, std::int64_t channels, std::int64_t repeat)
    : hull_(call.hull(input)), repeat_(static_cast<std::size_t>(std::max<std::int64_t>(repeat, 1))) {
  const std::int64_t count = channels / std::max<std::int64_t>(repeat, 1);
  if (count <= 1) return;
  if (const Tensor* value = call.value(input, std::int64_t{1} << 20); value != nullptr && value->size() == count) {
    for (const double x : elements<double>(*value)) each_.push_back(point(x));
    return;
  }
  const AbsTensor& range = call.in(input);
  if (!range.cut() || range.rank() != 1 || range.sizes[0] != count) return;
  for (std::size_t block = 0; block < range.blocks(0); ++block) {
    each_.insert(each_.end(), static_cast<std::size_t>(range.block_length(0, block)), range.cells[block]);
  }
}

namespace {

// Where channels are cut: where x is, and evenly between as far as the number of cells allows.
Cuts channel_cuts(const AbsTensor& x, std::size_t axis, std::size_t max_cells) {
  const std::size_t blocks = x.blocks(axis);
  const std::size_t others = x.cells.size() / blocks;
  const std::size_t wanted = std::max<std::size_t>(max_cells / (others * blocks), 1);  // pieces of each block
  Cuts cuts;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::int64_t start = x.block_start(axis, block), length = x.block_length(axis, block);
    const std::int64_t step =
        std::max<std::int64_t>((length + static_cast<std::int64_t>(wanted) - 1) / static_cast<std::int64_t>(wanted), 1);
    for (std::int64_t at = start; at < start + length; at += step) {
      if (at > 0) cuts.push_back(at);
    }
  }
  return cuts;
}

}  // namespace

AbsTensor map_channels(const AbsTensor& x, std::size_t axis, DType dtype, std::size_t max_cells,
                       const ChannelRange& f) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = true;
  result.sizes = x.sizes;
  result.cuts = x.cuts;
  result.cuts.resize(x.rank());
  result.cuts[axis] = channel_cuts(x, axis, max_cells);
  std::size_t count = x.cells.size() / x.blocks(axis) * result.blocks(axis);
  result.cells.assign(count, {});
  for (std::size_t cell = 0; cell < count; ++cell) {
    std::vector<std::size_t> place = cell_place(result, cell);
    const std::int64_t start = result.block_start(axis, place[axis]);
    const std::int64_t length = result.block_length(axis, place[axis]);
    std::size_t block = 0;
    while (x.block_start(axis, block) + x.block_length(axis, block) <= start && block + 1 < x.blocks(axis)) ++block;
    place[axis] = block;
    const Range& from = x.cells[cell_at(x, place)];
    for (std::int64_t channel = start; channel < start + length; ++channel) {
      result.cells[cell] = join(result.cells[cell], f(from, static_cast<std::size_t>(channel)));
    }
  }
  if (count == 1) result.cuts.clear();
  simplify(result, max_cells);
  return result;
}

Range scaled_and_shifted(DType dtype, const Range& normalized, const Range& scale, const Range& bias) {
  const Range product = multiply(dtype, normalized, scale);
  Range result = add(dtype, product, bias);
  if (!result.has_finite() || result.is_point()) return result;
  // Rounding once instead of twice, or from a wider format, changes the last digits only.
  const double slack = 3 * unit_roundoff(dtype) * normalized.magnitude() * scale.magnitude() + min_subnormal(dtype);
  Range wide = rounded_range(dtype, result, slack);
  // Rounding does not change on which side of the bias the result lies.
  if (product.lo >= 0 && !product.ninf) wide.lo = std::max(wide.lo, std::min(bias.lo, result.lo));
  if (product.hi <= 0 && !product.pinf) wide.hi = std::min(wide.hi, std::max(bias.hi, result.hi));
  return wide;
}

AbsTensor scaled_and_shifted(RangeCall& call, const AbsTensor& normalized, std::size_t scale, std::size_t bias,
                             DType dtype) {
  const bool shifts = call.has_range(bias);
  if (!normalized.ranked || normalized.rank() == 0) {
    const Range shift = shifts ? call.hull(bias) : point(0);
    return map_cells(normalized, dtype,
                     [&](const Range& x) { return scaled_and_shifted(dtype, x, call.hull(scale), shift); });
  }
  // One element of both for each index of the last axis: taken together.
  const std::size_t last = normalized.rank() - 1;
  const std::int64_t channels = normalized.sizes[last];
  const auto is_row = [&](std::size_t i) {
    return call.in(i).ranked && call.in(i).rank() == 1 && call.in(i).sizes[0] == channels;
  };
  if (channels > 0 && channels <= (1 << 16) && is_row(scale) && (!shifts || is_row(bias))) {
    const ChannelParameter factors(call, scale, channels);
    const std::optional<ChannelParameter> terms =
        shifts ? std::optional<ChannelParameter>(ChannelParameter(call, bias, channels)) : std::nullopt;
    if (factors.differs() || (terms && terms->differs())) {
      return map_channels(normalized, last, dtype, call.max_cells(), [&](const Range& x, std::size_t channel) {
        return scaled_and_shifted(dtype, x, factors.at(channel), terms ? terms->at(channel) : point(0));
      });
    }
  }
  AbsTensor product =
      zip_cells(normalized, call.in(scale), dtype, normalized.sizes, call.max_cells(),
                [&](const Range& x, const Range& factor) { return scaled_and_shifted(dtype, x, factor, point(0)); });
  if (!shifts) return product;
  return zip_cells(product, call.in(bias), dtype, normalized.sizes, call.max_cells(),
                   [&](const Range& x, const Range& term) { return scaled_and_shifted(dtype, x, point(1), term); });
}

// ---- LayerNormalization, RMSNormalization --------------------------------------

namespace {

// Scale or bias with another number of elements than a row, or perhaps so.
bool broadcasts(const RangeCall& call, const AbsTensor& x, const AxisSet& axes) {
  const auto count = [](const AbsTensor& tensor, std::size_t axis) { return tensor.sizes[axis]; };
  std::int64_t row = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i]) row = row < 0 || count(x, i) < 0 ? -1 : row * count(x, i);
  }
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.has_range(i)) continue;
    const AbsTensor& parameter = call.in(i);
    if (!x.ranked || !parameter.ranked) return true;
    const bool same_rank = parameter.rank() == static_cast<std::size_t>(std::ranges::count(axes, true));
    if (row < 0 && same_rank &&
        parameter.sizes == Dims(x.sizes.end() - static_cast<std::ptrdiff_t>(parameter.rank()), x.sizes.end()))
      continue;
    std::int64_t own = 1;
    for (const std::int64_t size : parameter.sizes) own = own < 0 || size < 0 ? -1 : own * size;
    if (own < 0 || own != row) return true;
  }
  return false;
}

void range_row_norm(RangeCall& call, Centre centre) {
  const AbsTensor& x = call.in(0);
  const DType stash = stash_type(call);
  const std::vector<DType> formats = row_formats(call, x.dtype, stash);
  AxisSet axes(x.rank(), false);
  if (x.ranked) {
    std::fill(axes.begin() + static_cast<std::ptrdiff_t>(normalize_axis(call.integer("axis"), x.rank())), axes.end(),
              true);
  }
  NormSpec spec{formats, call.real("epsilon"), centre, false};
  if (centre == Centre::mean) spec.differences = difference_formats(call, formats);
  if (call.may(Way::broadcast_differs) && broadcasts(call, x, axes)) spec.differences.push_back(DType::float64);
  RowNorm norm(call, std::move(spec));
  const AbsTensor z = mapped_groups(x, axes, x.dtype, [&](const Group& row) { return norm.normalized(row, x.dtype); });
  const std::size_t no_bias = call.input_count();
  call.out(0, scaled_and_shifted(call, z, 1, centre == Centre::mean ? 2 : no_bias, call.out_dtype(0)));
  const std::size_t deviation_output = centre == Centre::mean ? 2 : 1;
  if (centre == Centre::mean && call.has_output(1)) {
    call.out(1, reduced_cells(x, axes, true, stash, [&](const Group& row) { return norm.mean(row, stash); }));
  }
  if (call.has_output(deviation_output)) {
    call.out(deviation_output,
             reduced_cells(x, axes, true, stash, [&](const Group& row) { return norm.inverse_deviation(row, stash); }));
  }
  norm.report(call, 0);
}

}  // namespace

void range_layer_norm(RangeCall& call) { range_row_norm(call, Centre::mean); }
void range_rms_norm(RangeCall& call) { range_row_norm(call, Centre::zero); }

// ---- GroupNormalization --------------------------------------------------------

void range_group_norm(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType own = x.dtype == DType::float64 ? DType::float64 : DType::float32;
  const DType stash = call.version() < 21 ? own : stash_type(call);
  const std::int64_t groups = std::max<std::int64_t>(call.integer("num_groups"), 1);
  const std::vector<DType> formats = row_formats(call, x.dtype, stash);
  RowNorm norm(call, {formats, call.real("epsilon"), Centre::mean, false, difference_formats(call, formats)});
  double least = 1, most = kManyElements;
  const std::int64_t channels = x.ranked && x.rank() >= 2 ? x.sizes[1] : -1;
  if (x.ranked && x.rank() >= 2) {
    const std::uint32_t inner = ~std::uint32_t{1};  // all axes but the batch
    least = std::max(1.0, x.least_count(inner) / static_cast<double>(groups));
    most = std::max(1.0, x.most_count(inner) / static_cast<double>(groups));
  }
  const Range z = norm.normalized(group_of(x.hull(), least, std::max(most, 1.0)), x.dtype)[0];
  norm.report(call, 0);
  if (channels <= 0) {
    call.out(0, scaled_and_shifted(x.dtype, z, call.hull(1), call.hull(2)));
    return;
  }
  const std::int64_t repeat = call.version() < 21 ? std::max<std::int64_t>(channels / groups, 1) : 1;
  const ChannelParameter scale(call, 1, channels, repeat), bias(call, 2, channels, repeat);
  if (!scale.differs() && !bias.differs()) {
    call.out(0, scaled_and_shifted(x.dtype, z, scale.hull(), bias.hull()));
    return;
  }
  const AbsTensor rows = uniform(x.dtype, x.sizes, z);
  call.out(0, map_channels(rows, 1, x.dtype, call.max_cells(), [&](const Range& cell, std::size_t channel) {
             return scaled_and_shifted(x.dtype, cell, scale.at(channel), bias.at(channel));
           }));
}

}  // namespace finity
