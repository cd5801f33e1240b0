// Ranges of normalisations per channel or along one axis: batch, instance, mean-variance, Lp, local response.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/norm/norm_attrs.h"
#include "ops/norm/norm_range.h"
#include "ops/reduce/reduce_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/merged.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// ---- BatchNormalization with given moments ---------------------------------------

struct Channel {
  Range scale = {}, bias = {}, mean = {}, variance = {};
};

// (x - mean) / sqrt(variance + epsilon) * scale + bias: every variable occurs once, so interval arithmetic is exact.
class GivenMoments {
 public:
  GivenMoments(const RangeCall& call, std::vector<DType> formats, double epsilon, DType dtype)
      : call_(call), formats_(std::move(formats)), epsilon_(epsilon), dtype_(dtype) {}

  Range normalized(const Range& x, const Channel& at) {
    seen_ = join(seen_, at.variance);
    Range result;
    for (const DType format : formats_) result = join(result, in_format(format, x, at));
    return result;
  }
  // NaN and infinities that only x * factor + term makes.
  const Range& folded() const { return folded_; }
  // Of scale / deviation, over all channels seen.
  double largest_factor() const { return largest_factor_; }
  void report(RangeCall& call) const {
    call.site("FN305", 4, seen_, negative_, negative_ && surely_negative_);
    call.site("FN304", 4, seen_, zero_ && !negative_, zero_ && !negative_ && surely_zero_);
  }

 private:
  // The root of variance + epsilon, which is taken to be positive after a report.
  Range deviation(DType format, const Range& variance, bool& reported) {
    double epsilon = round_to(format, epsilon_);
    if (call_.settings().flush_subnormals && std::abs(epsilon) < min_normal(format)) epsilon = 0;
    const Range sum = add(format, variance, point(epsilon));
    const bool negative = sum.may_be_negative();
    const bool zero = sum.may_be_zero();
    negative_ |= negative;
    zero_ |= zero;
    surely_negative_ &= negative && !(sum.hi >= 0) && !sum.pinf && !sum.nan;
    surely_zero_ &= sum.is_point() && zero;
    reported = negative || zero;
    if (sum.is_empty()) return {};
    Range root;
    const double least = std::max(sum.lo, min_subnormal(format));
    if (sum.has_finite() && sum.hi >= least) root = from_bounds(format, std::sqrt(least), std::sqrt(sum.hi));
    root.nan |= sum.nan;
    root.pinf |= sum.pinf;
    return root;
  }

  void note_folded(const Range& plain, const Range& term, const Range& folded) {
    const bool only_folded = plain.is_finite() || term.pinf || term.ninf;
    if (only_folded && !folded.is_finite())
      folded_ = join(folded_, {.nan = folded.nan, .pinf = folded.pinf, .ninf = folded.ninf});
  }

  Range in_format(DType format, const Range& x, const Channel& at) {
    bool reported = false;
    const Range root = deviation(format, at.variance, reported);
    const Range distance = subtract(format, x, at.mean);
    const Range product = multiply(format, divide(format, distance, root), at.scale);
    Range result = add(format, product, at.bias);
    if (call_.may(Way::factor_and_term)) {
      const Range factor = divide(format, at.scale, root);
      const Range term = subtract(format, at.bias, multiply(format, at.mean, factor));
      if (!reported) note_folded(result, term, add(format, multiply(format, x, factor), term));
    }
    if (root.has_finite() && root.lo > 0) {
      // Other orders of the same operations, as x * factor + term, differ in the last digits of each.
      const double factor = at.scale.magnitude() / root.lo;
      largest_factor_ = std::max(largest_factor_, factor);
      const double size = (x.magnitude() + at.mean.magnitude()) * factor + at.bias.magnitude();
      result = rounded_range(dtype_, result, 8 * unit_roundoff(format) * size + 2 * min_subnormal(format));
    } else {
      result = rounded_range(dtype_, result, 0);
    }
    const bool infinite = x.pinf || x.ninf || at.mean.pinf || at.mean.ninf || at.scale.pinf || at.scale.ninf;
    // One cause, one finding: a result that overflows only because the variance vanishes is not another.
    if (reported && !infinite) result.pinf = result.ninf = false;
    return result;
  }

  const RangeCall& call_;
  std::vector<DType> formats_;
  double epsilon_;
  DType dtype_;
  double largest_factor_ = 0;
  Range folded_ = {};
  Range seen_ = {};
  bool negative_ = false, zero_ = false, surely_negative_ = true, surely_zero_ = true;
};

// Arithmetic happens in the widest operand's type, or in what sums of it are carried in.
std::vector<DType> batch_formats(const RangeCall& call) {
  DType widest = call.in_dtype(0);
  for (std::size_t i = 1; i < 5; ++i) {
    const DType own = call.in_dtype(i);
    if (own != widest && info(own).bits == info(widest).bits) widest = DType::float32;
    else if (info(own).bits > info(widest).bits) widest = own;
  }
  std::vector<DType> formats = call.accumulators(widest);
  return formats;
}

// Up to opset 8 a batch could have one parameter per position: those are taken as their hull.
std::optional<std::int64_t> channel_count(const RangeCall& call, const AbsTensor& x) {
  if (!batch_is_spatial(call) || !x.ranked || x.rank() < 2 || x.sizes[1] <= 0) return std::nullopt;
  return x.sizes[1];
}

class ChannelParameters {
 public:
  ChannelParameters(RangeCall& call, std::size_t first, std::size_t last, std::int64_t channels) {
    for (std::size_t i = first; i <= last; ++i) parameters_.emplace_back(call, i, channels);
  }
  bool differ() const {
    return std::ranges::any_of(parameters_, [](const ChannelParameter& p) { return p.differs(); });
  }
  Range at(std::size_t parameter, std::size_t channel) const { return parameters_[parameter].at(channel); }

 private:
  std::vector<ChannelParameter> parameters_;
};

void range_given_moments(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  GivenMoments norm(call, batch_formats(call), call.real("epsilon"), x.dtype);
  const auto channels = channel_count(call, x);
  const ChannelParameters parameters(call, 1, 4, channels.value_or(0));
  const auto at = [&](const Range& cell, std::size_t k) {
    return norm.normalized(cell, {parameters.at(0, k), parameters.at(1, k), parameters.at(2, k), parameters.at(3, k)});
  };
  AbsTensor result = channels && parameters.differ()
                         ? map_channels(x, 1, x.dtype, call.max_cells(), at)
                         : map_cells(x, x.dtype, [&](const Range& cell) { return at(cell, 0); });
  multiply_weights_first(call, 0, norm.largest_factor(), result);
  call.besides(0, norm.folded());
  call.out(0, std::move(result));
  norm.report(call);
}

// ---- BatchNormalization in training ------------------------------------------------

AxisSet all_but_channels(const AbsTensor& x, bool batch) {
  AxisSet axes(x.rank(), true);
  if (x.rank() > 0 && !batch) axes[0] = false;
  if (x.rank() > 1) axes[1] = false;
  return axes;
}

// The scale and bias of channels (inputs 1 and 2) on normalised elements.
AbsTensor scaled_channels(RangeCall& call, const AbsTensor& z, DType dtype) {
  const auto channels = channel_count(call, z);
  const ChannelParameters parameters(call, 1, 2, channels.value_or(0));
  const auto at = [&](const Range& cell, std::size_t channel) {
    return scaled_and_shifted(dtype, cell, parameters.at(0, channel), parameters.at(1, channel));
  };
  if (channels && parameters.differ()) return map_channels(z, 1, dtype, call.max_cells(), at);
  return map_cells(z, dtype, [&](const Range& cell) { return at(cell, 0); });
}

// input * momentum + batch * (1 - momentum)
Range running(DType dtype, const Range& input, const Range& batch, double momentum) {
  const Range kept = multiply(dtype, input, point(round_to(dtype, momentum)));
  const Range fresh = multiply(dtype, batch, point(round_to(dtype, 1 - momentum)));
  const Range sum = add(dtype, kept, fresh);
  return rounded_range(dtype, sum,
                       8 * unit_roundoff(dtype) * (kept.magnitude() + fresh.magnitude()) + min_subnormal(dtype));
}

// Outputs after Y: the running mean and variance, then the batch's own. They are not rounded in between.
Range trained_statistic(const RangeCall& call, const RowNorm& norm, const AxisSet& axes, std::size_t which) {
  const double momentum = call.real("momentum");
  Range result;
  for (const DType format : batch_formats(call)) {
    Range own;
    for_each_group(call.in(0), axes, [&](const Group& row) {
      own = join(own, which % 2 == 0 ? norm.mean(row, format) : norm.variance(row, format));
    });
    if (which < 2) own = running(format, call.hull(3 + which), own, momentum);
    result = join(result, rounded_range(call.in_dtype(3), own));
  }
  return result;
}

void range_trained_moments(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  RowNorm norm(call, {batch_formats(call), call.real("epsilon"), Centre::mean, false});
  AxisSet axes = all_but_channels(x, true);
  // Each position is a channel of its own: only the batch is reduced.
  for (std::size_t i = 1; i < axes.size() && !batch_is_spatial(call); ++i) axes[i] = false;
  ask_for_elements(call, x, Reduced{axes, true});
  const AbsTensor z = mapped_groups(x, axes, x.dtype, [&](const Group& row) { return norm.normalized(row, x.dtype); });
  call.out(0, scaled_channels(call, z, x.dtype));
  norm.report(call, 0);

  for (std::size_t i = 0; i < 4; ++i) {
    if (call.has_output(i + 1)) call.out(i + 1, trained_statistic(call, norm, axes, i));
  }
}

}  // namespace

void range_batch_norm(RangeCall& call) {
  if (batch_trains(call)) range_trained_moments(call);
  else range_given_moments(call);
}

// ---- InstanceNormalization, MeanVarianceNormalization --------------------------------

namespace {

AbsTensor normalized_rows(RangeCall& call, const AxisSet& axes, NormSpec spec) {
  const AbsTensor& x = call.in(0);
  spec.formats = row_formats(call, x.dtype, sum_format(x.dtype));
  spec.differences = difference_formats(call, spec.formats);
  const auto with = [&](double epsilon) {
    NormSpec own = spec;
    own.epsilon = epsilon;
    return RowNorm(call, std::move(own));
  };
  const auto rows = [&](RowNorm& norm) {
    return mapped_groups(x, axes, x.dtype, [&](const Group& row) { return norm.normalized(row, x.dtype); });
  };
  RowNorm norm = with(spec.epsilon);
  AbsTensor z = rows(norm);
  if (!call.may(Way::no_epsilon)) {
    norm.report(call, 0);
    return z;
  }
  RowNorm bare = with(0);
  const AbsTensor other = rows(bare);
  bare.report(call, 0);
  for (std::size_t i = 0; i < z.cells.size(); ++i) {
    z.cells[i] = join(z.cells[i], other.cells.size() == z.cells.size() ? other.cells[i] : other.hull());
  }
  return z;
}

// x * factor + term, with a factor of at most 1 / sqrt(epsilon): both are large and cancel.
void absorb_rounding(const Range& x, const Range& scale, double epsilon, AbsTensor& z) {
  const DType format = sum_format(z.dtype);
  const double least = std::max(epsilon, min_subnormal(format));
  const double size = x.magnitude() / std::sqrt(least);
  for (Range& cell : z.cells) {
    cell = rounded_range(z.dtype, cell, 8 * unit_roundoff(format) * size);
    const double largest = std::max(scale.magnitude(), 1.0) * std::max(size, 1 / std::sqrt(least));
    if (!(largest < max_finite(format) / 2)) cell.nan = cell.pinf = cell.ninf = true;
  }
}

}  // namespace

void range_instance_norm(RangeCall& call) {
  const double epsilon = call.real("epsilon");
  AbsTensor z = normalized_rows(call, all_but_channels(call.in(0), false), {{}, epsilon, Centre::mean, false});
  if (call.may(Way::factor_and_term)) absorb_rounding(call.hull(0), call.hull(1), epsilon, z);
  call.out(0, scaled_channels(call, z, z.dtype));
}

void range_mean_variance_norm(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  call.out(0, normalized_rows(call, x.ranked ? axis_set(moment_axes(call), x.rank()) : AxisSet{},
                              {{}, double{1e-9F}, Centre::mean, true}));
}

// ---- LpNormalization ---------------------------------------------------------------

namespace {

// The norm is at least each magnitude, so quotients are at most 1; but squares of small elements lose digits: where the
// norm is not zero, it may still be as small as sqrt(2/3) of one.
Range lp_part(DType carrier, const Group& row, const Range& x, double p) {
  const double u = unit_roundoff(carrier);
  const double tiny = std::sqrt(2 * min_normal(carrier));
  const bool small = x.lo < tiny && x.hi > -tiny;
  const double most = p == 1 ? 1 : small ? std::sqrt(1.5) * (1 + 4 * u) : 1 + 4 * u;
  double norm = 0;  // at most
  for (const Part& part : row.parts) {
    if (part.count > 0) norm += part.count * row.most * std::pow(part.each.magnitude(), p);
  }
  norm = std::pow(norm * sum_growth(carrier, row.most_count()), 1 / p) * (1 + 8 * u);
  Range result{.lo = -most, .hi = most};
  if (x.lo >= 0) result.lo = norm > 0 && std::isfinite(norm) && x.lo > tiny ? x.lo / norm * (1 - 4 * u) : 0;
  if (x.hi <= 0) result.hi = norm > 0 && std::isfinite(norm) && x.hi < -tiny ? x.hi / norm * (1 - 4 * u) : 0;
  return result;
}

bool powers_overflow(DType carrier, const Group& row, double p) {
  double sum = 0;
  for (const Part& part : row.parts) sum += part.count * row.most * std::pow(part.each.magnitude(), p);
  return !(sum * sum_growth(carrier, row.most_count()) <= max_finite(carrier));
}

std::vector<Range> lp_row(const RangeCall& call, DType dtype, const Group& row, double p, bool& overflows) {
  const Range hull = row.hull();
  std::vector<Range> result(row.parts.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Range& x = row.parts[i].each;
    if (x.is_empty()) continue;
    if (x.has_finite()) {
      result[i] = in_all_carriers(call, dtype, [&](DType carrier) {
        const Range part = lp_part(carrier, row, x, p);
        const bool lost = powers_overflow(carrier, row, p);
        overflows |= lost;
        const Range rounded = from_bounds(dtype, part.lo, part.hi);
        return lost ? join(rounded, point(0)) : rounded;
      });
    }
    // Divided by an infinite norm, finite elements are zero and infinite ones NaN.
    if (hull.pinf || hull.ninf) result[i] = join(result[i], point(0));
    result[i].nan |= hull.nan || x.pinf || x.ninf;
  }
  return result;
}

}  // namespace

void range_lp_norm(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto p = static_cast<double>(call.integer("p"));
  const std::int64_t axis = call.integer("axis");
  const AxisSet axes = x.ranked ? axis_set({&axis, 1}, x.rank()) : AxisSet{};
  bool overflows = false;
  call.out(0,
           mapped_groups(x, axes, x.dtype, [&](const Group& row) { return lp_row(call, x.dtype, row, p, overflows); }));
  call.site("FN205", 0, x.hull(), overflows);
}

// ---- LRN -----------------------------------------------------------------------------

namespace {

struct Response {
  double factor = 0;  // alpha / size
  double bias = 1;
  double beta = 0.75;
  double window = 1;  // squares in the sum, at most
};

// Largest |x| / (bias + factor x^2)^beta for |x| <= most: it falls again beyond a peak when beta > 1/2.
double largest_response(double most, const Response& r) {
  const double peak = r.beta > 0.5 && r.factor > 0 ? std::sqrt(r.bias / (r.factor * (2 * r.beta - 1))) : kInf;
  const double at = std::min(most, peak);
  if (at <= 1 || r.factor == 0) return at / std::pow(r.bias + r.factor * at * at, r.beta);
  // The same without squares, which overflow.
  return std::pow(at, 1 - 2 * r.beta) / std::pow(r.bias / at / at + r.factor, r.beta) * (1 + 0x1p-48);
}

Range response(const RangeCall& call, DType dtype, DType carrier, const Range& x, const Response& r) {
  Range result;
  const double u = unit_roundoff(carrier);
  const double slack = 2.0 * call.ulps() * u + (8 + (r.window + 8) * std::max(r.beta, 1.0)) * u;
  if (x.has_finite()) {
    // The factor may be subnormal in a narrow format.
    const double error = rounding_error(carrier, r.factor);
    const Response least{std::max(r.factor - error, 0.0), r.bias, r.beta, r.window};
    const double sum = x.magnitude() * x.magnitude() * r.window * sum_growth(carrier, r.window);
    const double base = std::pow(r.bias + (r.factor + error) * sum, r.beta) * (1 + slack);
    const double up = x.hi > 0 ? largest_response(x.hi, least) * (1 + slack) : x.hi / base;
    const double down = x.lo < 0 ? largest_response(-x.lo, least) * (1 + slack) : -x.lo / base;
    result = from_bounds(dtype, -down, std::max(up, -down), call.ulps());
    if (x.lo >= 0 && result.has_finite()) result.lo = std::max(result.lo, 0.0);
    if (x.hi <= 0 && result.has_finite()) result.hi = std::min(result.hi, 0.0);
    // An infinite sum makes the quotient zero.
    if (!(sum * std::max(r.factor, 1.0) <= max_finite(carrier))) result = join(result, point(0));
  }
  // Divided by an infinite sum, finite elements are zero and infinite ones mostly NaN.
  if (x.pinf || x.ninf) result = join(result, {.lo = 0, .hi = 0, .nan = true, .pinf = x.pinf, .ninf = x.ninf});
  result.nan |= x.nan;
  return result;
}

// A sum that slides over the channels, adding new squares and subtracting old ones, keeps the roundings of the largest.
void join_sliding_sum(const RangeCall& call, const AbsTensor& x, Response r, Range& all) {
  const DType carrier = call.accumulators(x.dtype).back();
  const double channels = x.ranked && x.rank() > 1 && x.sizes[1] >= 0 ? static_cast<double>(x.sizes[1]) : kManyElements;
  const double most = x.hull().magnitude();
  const double error = r.factor * most * most * std::min(4 * channels * unit_roundoff(carrier), 1.0);
  r.bias -= error;
  if (r.bias > 0.5 * error) {
    all = join(all, response(call, x.dtype, carrier, x.hull(), r));
  } else {
    all = join(all, any_finite(x.dtype));
    all.nan = all.pinf = all.ninf = true;
  }
}

}  // namespace

void range_local_response_norm(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const Range hull = x.hull();
  const auto size = static_cast<double>(std::max<std::int64_t>(call.integer("size"), 1));
  Response r{call.real("alpha") / size, call.real("bias"), call.real("beta"), size};
  if (x.ranked && x.rank() > 1 && x.sizes[1] >= 0) {
    r.window = std::max(1.0, std::min(size, static_cast<double>(x.sizes[1])));
  }
  // Powers of what may be zero or negative, or of a falling base: nothing is known.
  if (!(r.factor >= 0) || !(r.bias > 0) || !(r.beta >= 0)) {
    call.top(0);
    return;
  }
  bool overflows = false;
  const double squares = hull.magnitude() * hull.magnitude() * r.window;
  for (const DType carrier : call.accumulators(x.dtype)) overflows |= squares > max_finite(carrier);
  call.site("FN205", 0, hull, overflows);
  // The windows of neighbours overlap all channels: the row is one group.
  Range all = in_all_carriers(call, x.dtype, [&](DType carrier) { return response(call, x.dtype, carrier, hull, r); });
  if (call.may(Way::difference_of_squares)) join_sliding_sum(call, x, r, all);
  call.out(0, uniform(call.out_type(0), all));
}

}  // namespace finity
