#include "ops/windows/conv_range.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/shared/delegate.h"
#include "ops/shared/range_rules.h"
#include "ops/windows/window.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool is_same(const std::string& auto_pad) { return auto_pad.starts_with("SAME"); }

// A window of one element never reaches out of the input.
bool reaches_out(const RangeCall& call, const AbsTensor& w) {
  const std::vector<std::int64_t> kernel = call.integers("kernel_shape");
  for (const std::int64_t size : kernel) {
    if (size != 1) return true;
  }
  if (!kernel.empty()) return false;
  if (!w.ranked || w.rank() < 3) return true;
  return std::any_of(w.sizes.begin() + 2, w.sizes.end(), [](std::int64_t size) { return size != 1; });
}

// Convolution with everything known about x, block by block.
class ConvSums {
 public:
  ConvSums(const RangeCall& call, const AbsTensor& x, const ContractOperand& w, const ConvSpec& spec,
           const Type& result)
      : call_(call), x_(x), w_(w), spec_(spec) {
    grid_.ranked = true;
    grid_.sizes = sizes_of(result);
    grid_.cuts.resize(grid_.sizes.size());
    if (!x.cuts.empty() && x.sizes[0] == grid_.sizes[0]) grid_.cuts[0] = x.cuts[0];
    rows_ = grid_.cuts[0].size() + 1;
    grid_.terms = w.range->most_count(~std::uint32_t{1}) + 1;
  }

  SumGrid by_weights(std::span<const double> addend) {
    const Dims& dims = w_.weights->dims;
    const std::int64_t channels = dims[0], taps = element_count(std::span(dims).subspan(2));
    depth_ = dims[1] * taps;
    if (spec_.groups == 1 && !x_.cuts.empty() && x_.sizes[1] == dims[1]) {
      for (const std::int64_t cut : x_.cuts[1]) cuts_.push_back(cut * taps);
    }
    const WeightAxis axes[] = {{channels, false}, {depth_, true}};
    const WeightSums sums = weight_sums(w_.weights->data, axes, cuts_, w_.offsets);
    grid_.sizes[1] = channels;
    grid_.cuts[1] = even_cuts(channels, std::max<std::size_t>(call_.max_cells() / rows_, 1));
    grid_.cells.assign(grid_.cell_count(), DotSum{.empty = true});
    for (std::size_t row = 0; row < rows_; ++row) add_row(row, sums, addend, taps);
    return std::move(grid_);
  }

  SumGrid by_ranges() {
    const AbsTensor& w = *w_.range;
    if (!w.cuts.empty() && w.sizes[0] == grid_.sizes[1]) grid_.cuts[1] = w.cuts[0];
    const double most = grid_.terms - 1, least = spec_.padded ? 0 : w.least_count(~std::uint32_t{1});
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t block = 0; block <= grid_.cuts[1].size(); ++block) {
        const Extent channels[] = {{grid_.block_start(1, block), grid_.block_end(1, block)}};
        DotSum sum;
        add_products(sum, read({}, row), hull_within(w, channels), least, most);
        grid_.cells.push_back(sum);
      }
    }
    return std::move(grid_);
  }

 private:
  // What a tap may read from these channels.
  Range read(const Extent& channels, std::size_t row) const {
    const Extent extents[] = {{grid_.block_start(0, row), grid_.block_end(0, row)}, channels};
    const Range seen = hull_within(x_, extents);
    return spec_.padded && !seen.is_empty() ? join(seen, point(0)) : seen;
  }

  // Inputs of the sums of a group, per segment.
  std::vector<Range> inputs_of(std::size_t row, std::int64_t group, std::int64_t taps) const {
    const std::int64_t channels = depth_ / std::max<std::int64_t>(taps, 1);
    std::vector<Range> result;
    for (std::size_t segment = 0; segment <= cuts_.size(); ++segment) {
      Extent part{group * channels, (group + 1) * channels};
      if (segment > 0) part.begin = cuts_[segment - 1] / taps;
      if (segment < cuts_.size()) part.end = cuts_[segment] / taps;
      result.push_back(read(part, row));
    }
    return result;
  }

  void add_row(std::size_t row, const WeightSums& sums, std::span<const double> addend, std::int64_t taps) {
    const std::size_t per_group = std::max<std::size_t>(sums.columns / static_cast<std::size_t>(spec_.groups), 1);
    std::vector<Range> inputs;
    bool zeros = false;
    for (std::size_t column = 0; column < sums.columns; ++column) {
      if (column % per_group == 0) {
        inputs = inputs_of(row, static_cast<std::int64_t>(column / per_group), taps);
        const bool infinite = std::ranges::any_of(inputs, [](const Range& x) { return x.pinf || x.ninf; });
        zeros = infinite && (!w_.offsets.empty() || has_zero(w_.weights->data));
      }
      DotSum sum;
      for (std::size_t segment = 0; segment < inputs.size(); ++segment) {
        add_weighted(sum, inputs[segment], sums.positive(segment, column), sums.negative(segment, column),
                     static_cast<double>(depth_), zeros);
      }
      if (!addend.empty()) add_term(sum, point(addend[column]));
      const auto block = static_cast<std::size_t>(
          std::ranges::upper_bound(grid_.cuts[1], static_cast<std::int64_t>(column)) - grid_.cuts[1].begin());
      DotSum& cell = grid_.cells[row * (grid_.cuts[1].size() + 1) + block];
      cell = join(cell, sum);
    }
  }

  const RangeCall& call_;
  const AbsTensor& x_;
  const ContractOperand& w_;
  const ConvSpec& spec_;
  SumGrid grid_;
  std::size_t rows_ = 1;    // blocks of the batch
  std::int64_t depth_ = 1;  // weights of one sum
  Cuts cuts_;               // of x's channels, in weights
};

}  // namespace

ConvSpec conv_spec(const RangeCall& call, const AbsTensor& w) {
  ConvSpec spec{.groups = group_count(call)};
  const std::string auto_pad = call.text("auto_pad", "NOTSET");
  const std::vector<std::int64_t> pads = call.integers("pads");
  if (is_same(auto_pad)) spec.padded = reaches_out(call, w);
  else spec.padded = auto_pad != "VALID" && std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; });
  return spec;
}

Contracted conv_sums(const RangeCall& call, const AbsTensor& x, const ContractOperand& w, const ConvSpec& spec,
                     const Type& result, std::span<const double> addend) {
  const AbsTensor& weights = *w.range;
  const bool shaped = x.ranked && weights.ranked && result.ranked && x.rank() >= 2 && weights.rank() == x.rank() &&
                      result.shape.size() == x.rank();
  if (!shaped) {
    const double most = weights.most_count(~std::uint32_t{1});
    const Range seen = spec.padded ? join(x.hull(), point(0)) : x.hull();
    return {smashed_products(uniform(x.dtype, {}, seen), weights, 0, most), false};
  }
  ConvSums sums(call, x, w, spec, result);
  if (w.weights == nullptr) return {sums.by_ranges(), false};
  const bool fits = addend.size() == static_cast<std::size_t>(w.weights->dims[0]);
  return {sums.by_weights(fits ? addend : std::span<const double>{}), fits};
}

std::vector<double> channel_addend(RangeCall& call, std::size_t input) {
  constexpr std::int64_t kMost = 1 << 22;
  const Tensor* bias = call.has_range(input) ? call.value(input, kMost) : nullptr;
  if (bias == nullptr || bias->dtype() != call.in(input).dtype) return {};
  return elements<double>(*bias);
}

void add_channels(SumGrid& grid, const AbsTensor& bias) {
  grid.terms += 1;
  for (std::size_t cell = 0; cell < grid.cells.size(); ++cell) {
    Extent channels;
    if (grid.ranked && grid.sizes.size() > 1 && bias.ranked && bias.rank() == 1 && bias.sizes[0] == grid.sizes[1]) {
      const std::size_t block = place_of(grid, cell)[1];
      channels = {grid.block_start(1, block), grid.block_end(1, block)};
    }
    add_term(grid.cells[cell], hull_within(bias, std::span(&channels, 1)));
  }
}

AbsTensor conv_range(RangeCall& call) {
  const std::optional<Weights> weights = weights_of(call, 1);
  const ContractOperand w{&call.in(1), weights ? &*weights : nullptr, {}};
  const std::vector<double> addend = channel_addend(call, 2);
  Contracted result = conv_sums(call, call.in(0), w, conv_spec(call, call.in(1)), call.out_type(0), addend);
  if (call.has_range(2) && !result.added) add_channels(result.sums, call.in(2));
  return rounded(call, call.out_type(0), result.sums);
}

void range_conv(RangeCall& call) { call.out(0, conv_range(call)); }

// Present and past positions are read alike; without a past there are zeros.
void range_causal_conv(RangeCall& call) {
  AbsTensor x = call.in(0);
  const Range past = call.has_range(3) ? call.hull(3) : point(0);
  for (Range& cell : x.cells) cell = join(cell, past);
  const std::optional<Weights> weights = weights_of(call, 1);
  const ContractOperand w{&call.in(1), weights ? &*weights : nullptr, {}};
  const std::int64_t channels = call.in(1).ranked && call.in(1).rank() == 3 ? call.in(1).sizes[0] : -1;
  const ConvSpec spec{.groups = std::max<std::int64_t>(channels, 1), .padded = false};
  const std::vector<double> addend = channel_addend(call, 2);
  Contracted sums = conv_sums(call, x, w, spec, call.out_type(0), addend);
  if (call.has_range(2) && !sums.added) add_channels(sums.sums, call.in(2));
  AbsTensor result = rounded(call, call.out_type(0), sums.sums);
  if (call.text("activation") != "none") result = range_other(call, {"Swish", 24}, {}, {result}, call.out_type(0));
  call.out(0, std::move(result));
  if (call.has_output(1)) call.out(1, x.hull());
}

// ---- windows added into an image ---------------------------------------------------

namespace {

// Taps whose distance is a multiple of this meet in one output.
std::int64_t period(std::int64_t stride, std::int64_t dilation) { return stride / std::gcd(stride, dilation); }

std::vector<std::vector<std::int64_t>> classes_along(std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  std::vector<std::vector<std::int64_t>> classes(static_cast<std::size_t>(std::min(period(stride, dilation), kernel)));
  for (std::int64_t tap = 0; tap < kernel; ++tap) {
    classes[static_cast<std::size_t>(tap) % classes.size()].push_back(tap);
  }
  return classes;
}

}  // namespace

std::vector<std::vector<std::int64_t>> tap_classes(std::span<const std::int64_t> kernel,
                                                   std::span<const std::int64_t> strides,
                                                   std::span<const std::int64_t> dilations) {
  std::vector<std::vector<std::int64_t>> classes{{0}};
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    std::vector<std::vector<std::int64_t>> next;
    for (const std::vector<std::int64_t>& here : classes_along(kernel[i], strides[i], dilations[i])) {
      for (const std::vector<std::int64_t>& outer : classes) {
        std::vector<std::int64_t> both;
        for (const std::int64_t a : outer) {
          for (const std::int64_t b : here) both.push_back(a * kernel[i] + b);
        }
        next.push_back(std::move(both));
      }
    }
    classes = std::move(next);
  }
  return classes;
}

std::vector<std::int64_t> steps_of(const RangeCall& call, std::string_view name, std::size_t rank) {
  std::vector<std::int64_t> steps = call.integers(name);
  if (steps.empty()) steps.assign(rank, 1);
  const bool good = steps.size() == rank && std::ranges::all_of(steps, [](std::int64_t step) { return step > 0; });
  if (!good) throw Error("attribute '" + std::string(name) + "' does not have one positive number per axis");
  return steps;
}

namespace {

// The most taps that meet; kManyElements when sizes are unknown.
double most_meeting(std::span<const std::int64_t> kernel, std::span<const std::int64_t> strides,
                    std::span<const std::int64_t> dilations) {
  double most = 1;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < 0) return kManyElements;
    most *= std::ceil(static_cast<double>(kernel[i]) / static_cast<double>(period(strides[i], dilations[i])));
  }
  return most;
}

// W [C, M / groups, kernel...]. The columns of its sums are (group, channel, tap).
class TransposeSums {
 public:
  TransposeSums(const RangeCall& call, const AbsTensor& x, const Weights& w, std::int64_t groups)
      : call_(call), x_(x), w_(w), groups_(groups) {
    const std::size_t rank = w.dims.size() - 2;
    const std::span<const std::int64_t> kernel = std::span(w.dims).subspan(2);
    classes_ = tap_classes(kernel, steps_of(call, "strides", rank), steps_of(call, "dilations", rank));
    taps_ = static_cast<std::size_t>(element_count(kernel));
    depth_ = w.dims[0] / groups;
    std::size_t most = 1;
    for (const auto& one : classes_) most = std::max(most, one.size());
    terms_ = static_cast<double>(depth_) * static_cast<double>(most) + 1;
  }

  SumGrid run(const Type& result, std::span<const double> addend) {
    const WeightAxis axes[] = {
        {groups_, false}, {depth_, true}, {w_.dims[1] * static_cast<std::int64_t>(taps_), false}};
    if (groups_ == 1 && !x_.cuts.empty() && x_.sizes[1] == depth_) cuts_ = x_.cuts[1];
    const WeightSums sums = weight_sums(w_.data, axes, cuts_);
    SumGrid grid;
    grid.ranked = true;
    grid.sizes = sizes_of(result);
    grid.cuts.resize(grid.sizes.size());
    const std::int64_t channels = groups_ * w_.dims[1];
    grid.sizes[1] = channels;
    grid.cuts[1] = even_cuts(channels, call_.max_cells());
    grid.cells.assign(grid.cell_count(), DotSum{.empty = true});
    grid.terms = terms_;
    for (std::size_t block = 0; block < grid.cells.size(); ++block) {
      for (std::int64_t m = grid.block_start(1, block); m < std::min(grid.block_end(1, block), channels); ++m) {
        grid.cells[block] = join(grid.cells[block], channel_sum(sums, m, addend));
      }
    }
    return grid;
  }

 private:
  // Every term may be missing, at the border or because the stride passes over it: x is joined with 0.
  Range input(std::int64_t group, std::size_t segment) const {
    Extent channels{group * depth_, (group + 1) * depth_};
    if (segment > 0) channels.begin = cuts_[segment - 1];
    if (segment < cuts_.size()) channels.end = cuts_[segment];
    const Extent extents[] = {{}, channels};
    return join(hull_within(x_, extents), point(0));
  }

  DotSum channel_sum(const WeightSums& sums, std::int64_t channel, std::span<const double> addend) const {
    DotSum result{.empty = true};
    const std::size_t first = static_cast<std::size_t>(channel) * taps_;
    std::vector<Range> inputs;
    for (std::size_t i = 0; i <= cuts_.size(); ++i) inputs.push_back(input(channel / w_.dims[1], i));
    for (const std::vector<std::int64_t>& taps : classes_) {
      DotSum sum;
      for (const std::int64_t tap : taps) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const std::size_t column = first + static_cast<std::size_t>(tap);
          add_weighted(sum, inputs[i], sums.positive(i, column), sums.negative(i, column), static_cast<double>(depth_),
                       true);
        }
      }
      if (!addend.empty()) add_term(sum, point(addend[static_cast<std::size_t>(channel)]));
      result = join(result, sum);
    }
    return result;
  }

  const RangeCall& call_;
  const AbsTensor& x_;
  const Weights& w_;
  std::int64_t groups_;
  std::int64_t depth_ = 1;
  std::size_t taps_ = 1;
  double terms_ = 1;
  Cuts cuts_;
  std::vector<std::vector<std::int64_t>> classes_;
};

SumGrid transpose_by_ranges(const RangeCall& call, std::int64_t groups) {
  const AbsTensor& w = call.in(1);
  double most = kManyElements;
  if (w.ranked && w.rank() >= 3 && w.sizes[0] >= 0) {
    const std::size_t rank = w.rank() - 2;
    most =
        most_meeting(std::span(w.sizes).subspan(2), steps_of(call, "strides", rank), steps_of(call, "dilations", rank));
    most = most * static_cast<double>(w.sizes[0]) / static_cast<double>(groups);
  }
  return smashed_products(uniform(call.in_dtype(0), {}, join(call.hull(0), point(0))), w, 0, most);
}

}  // namespace

void range_conv_transpose(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::int64_t groups = group_count(call);
  const Type& type = call.out_type(0);
  const bool no_channels = x.ranked && x.rank() > 1 && x.sizes[1] == 0;  // then every result is a sum of nothing
  if (x.hull().is_empty() && !no_channels) return call.out(0, empty_range());
  const std::optional<Weights> weights = weights_of(call, 1);
  std::vector<double> addend = channel_addend(call, 2);
  SumGrid sums;
  const bool shaped = weights && x.ranked && type.ranked && weights->dims.size() >= 3 &&
                      x.rank() == weights->dims.size() && type.shape.size() == x.rank();
  if (shaped && groups >= 1 && weights->dims[0] % groups == 0) {
    if (static_cast<std::int64_t>(addend.size()) != groups * weights->dims[1]) addend.clear();
    sums = TransposeSums(call, x, *weights, groups).run(type, addend);
  } else {
    sums = transpose_by_ranges(call, std::max<std::int64_t>(groups, 1));
    addend.clear();
  }
  if (call.has_range(2) && addend.empty()) add_channels(sums, call.in(2));
  call.out(0, rounded(call, type, sums));
}

void range_col2im(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  if (is_complex(dtype)) return call.top(0);
  if (dtype == DType::boolean) return range_bool(call);
  const auto block = call.ints(2);
  double most = kManyElements;
  if (block && !block->empty()) {
    most = most_meeting(*block, steps_of(call, "strides", block->size()), steps_of(call, "dilations", block->size()));
  }
  DotSum sum;
  if (call.hull(0).is_empty()) return call.out(0, empty_range());
  add_products(sum, call.hull(0), point(1), 0, most);
  call.out(0, rounded(call, dtype, sum, most));
}

// ---- DeformConv --------------------------------------------------------------------

namespace {

// A sample is a mean of up to 2^n neighbours of the position, 0 outside the input, times the mask.
Range sample_range(const RangeCall& call, DType dtype) {
  const Range x = join(call.hull(0), point(0));
  const double axes = call.in(0).ranked ? static_cast<double>(call.in(0).rank()) - 2 : 4;
  const double error = x.magnitude() * (std::exp2(axes) + 4 * axes + 4) * unit_roundoff(dtype);
  Range sample = from_bounds(dtype, x.lo - error, x.hi + error, 1);
  sample.nan |= x.nan;
  sample.pinf |= x.pinf;
  sample.ninf |= x.ninf;
  const Range offset = call.hull(2);
  // Shares of neighbours that are 0 meet infinities; infinite offsets have no position.
  sample.nan |= offset.nan || offset.pinf || offset.ninf || x.pinf || x.ninf;
  if (!call.has_range(4)) return sample;
  Range masked = multiply(dtype, sample, call.hull(4));
  if (masked.has_finite()) {
    masked.lo = std::max(next_down(dtype, masked.lo), lowest_finite(dtype));
    masked.hi = std::min(next_up(dtype, masked.hi), max_finite(dtype));
  }
  return masked;
}

}  // namespace

void range_deform_conv(RangeCall& call) {
  if (call.hull(0).is_empty()) return call.out(0, empty_range());
  AbsTensor x = uniform(call.in_type(0), sample_range(call, call.in_dtype(0)));
  const std::optional<Weights> weights = weights_of(call, 1);
  const ContractOperand w{&call.in(1), weights ? &*weights : nullptr, {}};
  const std::vector<double> addend = channel_addend(call, 3);
  const ConvSpec spec{.groups = group_count(call), .padded = true};
  Contracted result = conv_sums(call, x, w, spec, call.out_type(0), addend);
  if (call.has_range(3) && !result.added) add_channels(result.sums, call.in(3));
  call.out(0, rounded(call, call.out_type(0), result.sums));
}

}  // namespace finity
