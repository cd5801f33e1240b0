#include "ops/norm/image_norm_range.h"

#include <algorithm>
#include <cmath>

#include "ops/norm/norm_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/range_rules.h"

namespace finity {

namespace {

// Sums of operands, as they are held before they are normalised: exact, in the wide type, or rounded to the narrow one,
// whatever is asked of accumulations.
class AddedOperands {
 public:
  AddedOperands(RangeCall& call, DType dtype, std::vector<DType> formats)
      : call_(call), dtype_(dtype), formats_(std::move(formats)) {}

  void start(const AbsTensor& x) { sum_ = x; }
  void add_operand(const AbsTensor& x) {
    const Dims sizes = sum_.sizes;
    sum_ = zip_cells(sum_, x, dtype_, sizes, call_.max_cells(), [&](const Range& a, const Range& b) {
      Range result;
      for (const DType format : formats_) {
        result = join(result, finity::add(format, rounded_range(format, a), rounded_range(format, b)));
      }
      overflows_ |= result.pinf && !a.pinf && !b.pinf;
      overflows_ |= result.ninf && !a.ninf && !b.ninf;
      return result;
    });
  }
  // Where the sum overflows the narrow format there is a report; the rows are taken to be finite then.
  AbsTensor finish() {
    const Range hull = sum_.hull();
    call_.site("FN203", -1, hull, overflows_);
    if (overflows_) {
      for (Range& cell : sum_.cells) cell.pinf = cell.ninf = false;
    }
    return std::move(sum_);
  }

 private:
  RangeCall& call_;
  DType dtype_;
  std::vector<DType> formats_;
  AbsTensor sum_ = {};
  bool overflows_ = false;
};

AbsTensor rounded_cells(const AbsTensor& x, DType dtype) {
  return map_cells(x, dtype, [&](const Range& cell) { return rounded_range(dtype, cell); });
}

// x sigmoid(x) falls to its minimum near -1.2785 and rises from there on. Tighter than Swish's rule, whose kernels may
// round the sigmoid.
Range silu(DType dtype, const Range& x, int ulps) {
  constexpr double kLowest = -0.2784645427610738, kWhere = -1.2784645427610738;
  const auto f = [](double v) { return v < -700 ? 0.0 : v / (1 + std::exp(-v)); };
  Range result;
  if (x.has_finite()) {
    const bool through = x.lo <= kWhere && x.hi >= kWhere;
    const double lo = through ? kLowest : std::min(f(x.lo), f(x.hi));
    result = from_bounds(dtype, lo, std::max(f(x.lo), f(x.hi)), ulps + 2);
  }
  if (x.pinf) result = join(result, {.pinf = true});
  if (x.ninf) result = join(result, {.lo = 0, .hi = 0, .nan = true});
  result.nan |= x.nan;
  return result;
}

// x normalised per image and group of channels, scaled per channel, and perhaps SiLU.
AbsTensor image_group_norm(RangeCall& call, const AbsTensor& x, DType dtype) {
  const std::int64_t groups = std::max<std::int64_t>(call.integer("groups"), 1);
  const std::size_t axis = call.integer("channels_last") != 0 ? 3 : 1;
  RowNorm norm(call, {row_formats(call, dtype, sum_format(dtype)), call.real("epsilon"), Centre::mean, false});
  double least = 1, most = kManyElements;
  if (x.ranked && x.rank() == 4) {
    const std::uint32_t image = 0b1110;
    least = std::max(1.0, x.least_count(image) / static_cast<double>(groups));
    most = std::max(1.0, x.most_count(image) / static_cast<double>(groups));
  }
  const Range z = norm.normalized(group_of(x.hull(), least, most), dtype)[0];
  norm.report(call, 0);
  const bool activates = call.integer("activation") != 0;
  const int ulps = call.ulps();
  const auto finish = [&](const Range& scale, const Range& bias) {
    const Range y = scaled_and_shifted(dtype, z, scale, bias);
    return activates ? silu(dtype, y, ulps) : y;
  };
  const std::int64_t channels = x.ranked && x.rank() == 4 ? x.sizes[axis] : -1;
  if (channels <= 0) return uniform(call.out_type(0), finish(call.hull(1), call.hull(2)));
  const ChannelParameter scale(call, 1, channels), bias(call, 2, channels);
  if (!scale.differs() && !bias.differs()) return uniform(call.out_type(0), finish(scale.hull(), bias.hull()));
  return map_channels(uniform(dtype, x.sizes, z), axis, dtype, call.max_cells(),
                      [&](const Range&, std::size_t channel) { return finish(scale.at(channel), bias.at(channel)); });
}

}  // namespace

void range_image_group_norm(RangeCall& call) { call.out(0, image_group_norm(call, call.in(0), call.in_dtype(0))); }

void range_skip_group_norm(RangeCall& call) {
  const DType dtype = call.in_dtype(0);
  AddedOperands added(call, dtype, {DType::float64, sum_format(dtype), dtype});
  added.start(call.in(0));
  // skip may be [N, C], which is no broadcast of images, and bias is per channel: their hulls are what counts.
  for (const std::size_t input : {3, 4}) {
    if (call.has_range(input)) added.add_operand(uniform(dtype, {}, call.hull(input)));
  }
  const AbsTensor sum = added.finish();
  call.out(0, image_group_norm(call, sum, dtype));
  if (call.has_output(1)) call.out(1, rounded_cells(sum, dtype));
}

}  // namespace finity
