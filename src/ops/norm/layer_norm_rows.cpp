#include <algorithm>
#include <cmath>

#include "ops/norm/norm_range.h"
#include "ops/reduce/reduce_range.h"
#include "ops/shared/range_rules.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

double smallest_magnitude(const Range& x) { return x.lo > 0 ? x.lo : x.hi < 0 ? -x.hi : 0; }

// Epsilon as the format holds it; what is not positive cannot help.
double held(const RangeCall& call, double epsilon, DType format) {
  const double value = round_to(format, epsilon);
  if (!(value > 0) || (call.settings().flush_subnormals && value < min_normal(format))) return 0;
  return value;
}

// Means over a row, each part weighted by its share.
struct RowMeans {
  double lo = 0, hi = 0;  // of the elements, in real numbers
  double magnitude = 0;   // of |x|, at most
  double square_lo = 0;   // of x^2
  double square_hi = 0;   //
  double terms = 1;       // elements of the row, at most
  double error = 0;       // of the mean in floats
};

RowMeans means_of(const Group& row, DType format) {
  RowMeans result;
  const double once = row.least_count() / row.least;
  for (const Part& part : row.parts) {
    if (part.count == 0 || !part.each.has_finite()) continue;
    const double share = part.count / once;
    const double most = part.each.magnitude(), least = smallest_magnitude(part.each);
    result.lo += share * part.each.lo;
    result.hi += share * part.each.hi;
    result.magnitude += share * most;
    result.square_lo += share * least * least;
    result.square_hi += share * most * most;
  }
  result.terms = row.most_count();
  const double u = unit_roundoff(format);
  if (result.terms > 1) {
    const double relative = std::min((result.terms + 3) * u, sum_growth(format, result.terms) + 1);
    result.error = relative * result.magnitude;
  }
  return result;
}

struct Interval {
  double lo = 0, hi = 0;
  double magnitude() const { return std::max(std::abs(lo), std::abs(hi)); }
};

// Distance of a part's elements from the row's mean: the element itself is one of those that the mean is taken of.
Interval distance(const Range& x, const RowMeans& row) {
  const double own = (x.hi - x.lo) / row.terms;
  const double lo = x.lo - row.hi + own, hi = x.hi - row.lo - own;
  // Differences of the largest float64 numbers overflow here.
  return {std::isfinite(lo) ? lo : -kInf, std::isfinite(hi) ? hi : kInf};
}

// d / sqrt(d^2 / terms + epsilon), also where squares of float64 numbers overflow or vanish.
double quotient(double d, double terms, double epsilon) {
  if (d < 1) return d / std::sqrt(d * d / terms + epsilon);
  return 1 / std::sqrt(1 / terms + epsilon / d / d);
}

// Largest d / sqrt(variance + epsilon) for a distance of at most d, exact up to a few roundings. `tiny` is what squares
// lose near zero.
double largest_quotient(double d, double terms, double epsilon, double tiny) {
  if (!(d > 0)) return 0;
  if (epsilon > 2 * tiny) return quotient(d, terms, epsilon - 2 * tiny);
  const double floor = std::max(epsilon, tiny);
  return std::min(d / std::sqrt(floor), std::sqrt(terms * std::max(1.0, 2 * tiny / floor)));
}

// The same with epsilon added to the root.
double largest_rooted_quotient(double d, double terms, double epsilon, double tiny) {
  if (!(d > 0)) return 0;
  const double floor = std::max(epsilon, std::sqrt(tiny));
  return std::min(d / floor, std::sqrt(terms) * std::max(1.0, std::sqrt(2 * tiny) / floor));
}

}  // namespace

Range rounded_range(DType dtype, const Range& x, double slack) {
  if (!x.has_finite()) return x;
  Range result = from_bounds(dtype, x.lo - slack, x.hi + slack);
  result.nan |= x.nan;
  result.pinf |= x.pinf;
  result.ninf |= x.ninf;
  return result;
}

std::vector<DType> row_formats(const RangeCall& call, DType dtype, DType stash) {
  std::vector<DType> formats = {stash};
  for (const DType format : call.accumulators(dtype)) {
    const bool narrower = unit_roundoff(format) > unit_roundoff(stash);
    if (narrower && std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
  }
  return formats;
}

namespace {

// One row in one format.
class RowIn {
 public:
  RowIn(const RangeCall& call, const NormSpec& spec, const Group& row, DType format, bool difference)
      : spec_(spec),
        format_(format),
        difference_(difference),
        row_(mapped_parts(row, [&](const Range& x) { return rounded_range(format, x); })),
        means_(means_of(row_, format)),
        hull_(row_.hull()),
        epsilon_(held(call, spec.epsilon, format)),
        u_(unit_roundoff(format)) {}

  const Group& row() const { return row_; }
  const Range& hull() const { return hull_; }

  // Distances as floats, or the elements themselves.
  Interval distances(std::size_t part) const {
    const Range& x = row_.parts[part].each;
    if (spec_.centre == Centre::zero) return {x.lo, x.hi};
    Interval d = distance(x, means_);
    d.lo = (d.lo - means_.error) * (d.lo < means_.error ? 1 + u_ : 1 - u_);
    d.hi = (d.hi + means_.error) * (d.hi > -means_.error ? 1 + u_ : 1 - u_);
    return d;
  }

  Interval normalized(std::size_t part) const {
    const bool alone = means_.terms == 1 && spec_.centre == Centre::mean;
    if (alone) return {0, 0};
    const Interval d = distances(part);
    const double hi = d.hi < 0 ? 0 - smallest(-d.hi) : largest(d.hi);
    const double lo = d.lo > 0 ? smallest(d.lo) : 0 - largest(-d.lo);
    return {lo, hi};
  }

  // Of a difference of squares: each of both is wrong by the error of its mean.
  double difference_error() const {
    if (!difference_) return 0;
    const double mean = means_.magnitude > 0 ? means_.error / means_.magnitude : 0;
    return (3 * mean + mean * mean + 8 * u_) * means_.square_hi + (means_.square_hi > 0 ? min_subnormal(format_) : 0);
  }
  double variance_hi() const {
    const double growth = sum_growth(format_, means_.terms) * (1 + 8 * u_);
    if (spec_.centre == Centre::zero) return means_.square_hi * growth;
    const double half = (hull_.hi - hull_.lo) / 2 + means_.error;
    return half * half * growth + difference_error();
  }
  double variance_lo() const {
    if (spec_.centre == Centre::mean) return may_be_negative() ? 0 : 0 - difference_error();
    return std::max(0.0, means_.square_lo * (1 - (means_.terms + 8) * u_) - 2 * min_subnormal(format_));
  }
  double epsilon() const { return epsilon_; }

  // Both variance and epsilon may be (are) zero. An epsilon below zero may outweigh any variance.
  bool may_vanish() const { return !(spec_.epsilon >= 0) || (epsilon_ == 0 && !varies()); }
  // A difference of squares may be further below zero than epsilon (or the spread of the row) lifts it.
  bool may_be_negative() const {
    const double spread = gap() > 0 ? gap() * gap() / (2 * means_.terms) : 0;
    const double lifted = spread + (spec_.added_to_root ? 0 : epsilon_);
    return difference_ && difference_error() > 0 && !(difference_error() < lifted);
  }
  bool must_vanish() const { return epsilon_ == 0 && means_.terms == 1 && spec_.centre == Centre::mean; }

  // A square, a sum of them or of the elements, or the number of elements may be too large for the format.
  bool may_overflow() const {
    double squares = 0, sum = 0;
    for (std::size_t i = 0; i < row_.parts.size(); ++i) {
      const Part& part = row_.parts[i];
      if (part.count == 0 || !part.each.has_finite()) continue;
      const double d = difference_ ? part.each.magnitude() : distances(i).magnitude();
      squares += part.count * row_.most * d * d;
      sum += part.count * row_.most * part.each.magnitude();
    }
    const double growth = sum_growth(format_, means_.terms);
    const double most = max_finite(format_);
    const bool mean = spec_.centre == Centre::mean && sum * growth > most;
    return mean || !(squares * growth * (1 + 4 * u_) <= most) || means_.terms > most;
  }

 private:
  // Some elements are surely so different (so large) that the variance (mean of squares) is not zero.
  bool varies() const {
    const double floor = 4 * means_.terms * min_normal(format_);
    if (spec_.centre == Centre::zero) return means_.square_lo * means_.terms > floor * means_.terms;
    const double least = gap() - 4 * means_.error;
    return least > 0 && least * least > 4 * floor;
  }

  // Some two elements of every row differ by at least this much.
  double gap() const {
    double low = kInf, high = -kInf;  // least upper end, largest lower end of the parts
    for (const Part& part : row_.parts) {
      if (part.count == 0 || !part.each.has_finite()) continue;
      low = std::min(low, part.each.hi);
      high = std::max(high, part.each.lo);
    }
    return high - low;
  }

  double largest(double d) const {
    if (difference_) return largest_by_difference(d);
    const double tiny = min_subnormal(format_);
    const double terms = means_.terms;
    const double bound = spec_.added_to_root ? largest_rooted_quotient(d, terms, epsilon_, tiny)
                                             : largest_quotient(d, terms, epsilon_, tiny);
    double best = bound * (1 + 8 * u_);
    // Without the rounding of the mean, e, the variance is at least d^2 / (n - 1); and by Cauchy and Schwarz
    // d + e <= sqrt(n - 1 + e^2 / epsilon) sqrt(d^2 / (n - 1) + epsilon).
    const bool tight = spec_.centre == Centre::mean && !spec_.added_to_root && epsilon_ > 8 * tiny;
    const double relative = (terms + 8) * u_;
    if (tight && relative < 0.25 && d > means_.error) {
      const double away = means_.error / std::sqrt(epsilon_);
      const double real =
          std::min(quotient(d - means_.error, terms - 1, epsilon_) + away, std::hypot(std::sqrt(terms - 1), away));
      best = std::min(best, real * (1 + 2 * relative + 2 * tiny / epsilon_));
    }
    return best;
  }

  // With e the error of the variance v: d <= sqrt(n (v + e)) and the error of the mean, which is below sqrt(e); divided
  // by sqrt(v + epsilon) or sqrt(v) + epsilon. What is below zero is taken not to be, once it is reported.
  double largest_by_difference(double d) const {
    if (!(d > 0)) return 0;
    const double error = difference_error();
    const double least = may_be_negative() ? 0 : spec_.added_to_root ? 0 : -error;
    const double root = spec_.added_to_root ? epsilon_ : std::sqrt(epsilon_ + least);
    const double floor = std::max(root, std::sqrt(min_subnormal(format_)));
    const double ratio = spec_.added_to_root ? 1 + std::sqrt(error) / floor : std::sqrt(1 + error / (floor * floor));
    return std::min(d / floor, (std::sqrt(means_.terms) + 1) * ratio) * (1 + 8 * u_);
  }

  // Least quotient of a distance of at least d, on the same side.
  double smallest(double d) const {
    const double variance = variance_hi();
    const double root = spec_.added_to_root ? std::sqrt(variance) + epsilon_ : std::sqrt(variance + epsilon_);
    return root > 0 ? d / root * (1 - 8 * u_ - (spec_.added_to_root ? 1e-7 : 0)) : 0;
  }

  const NormSpec& spec_;
  DType format_;
  bool difference_;
  Group row_;
  RowMeans means_;
  Range hull_;
  double epsilon_;
  double u_;
};

}  // namespace

std::vector<RowNorm::Arithmetic> RowNorm::all_ways() const {
  std::vector<Arithmetic> result;
  for (const DType format : spec_.formats) result.push_back({format, false});
  for (const DType format : spec_.differences) result.push_back({format, true});
  return result;
}

std::vector<DType> difference_formats(const RangeCall& call, const std::vector<DType>& formats) {
  return call.may(Way::difference_of_squares) ? formats : std::vector<DType>{};
}

std::vector<Range> RowNorm::normalized(const Group& row, DType dtype) {
  const Range hull = row.hull();
  const bool infinite = hull.pinf || hull.ninf;
  seen_ = join(seen_, hull);
  std::vector<Range> result(row.parts.size());
  if (row.surely_empty()) return result;
  for (const auto& [format, difference] : all_ways()) {
    const RowIn in(call_, spec_, row, format, difference);
    // Elements may not fit into a narrower format either.
    const bool overflows = in.may_overflow() || (in.hull().pinf && !hull.pinf) || (in.hull().ninf && !hull.ninf);
    overflows_ |= overflows;
    vanishes_ |= in.may_vanish();
    negative_ |= in.may_be_negative();
    always_vanishes_ &= in.must_vanish();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!in.row().parts[i].each.has_finite()) continue;
      Interval z = in.normalized(i);
      // After an overflow inside, a smaller result is what is left.
      if (overflows) z = {std::min(z.lo, 0.0), std::max(z.hi, 0.0)};
      Range part = from_bounds(dtype, z.lo, z.hi, z.lo == z.hi ? 0 : 1);
      if (z.lo >= 0) part.lo = std::max(part.lo, 0.0);
      if (z.hi <= 0) part.hi = std::min(part.hi, 0.0);
      result[i] = join(result[i], part);
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Range& own = row.parts[i].each;
    if (own.is_empty()) continue;
    // An infinite element makes the mean infinite and the row NaN; without a mean it makes the others zero.
    if (infinite && spec_.centre == Centre::zero) result[i] = join(result[i], point(0));
    result[i].nan |= hull.nan || (infinite && (spec_.centre == Centre::mean || own.pinf || own.ninf));
  }
  return result;
}

Range RowNorm::mean(const Group& row, DType dtype) const {
  if (row.surely_empty()) return {.nan = true};
  Range result;
  for (const auto& [format, difference] : all_ways()) {
    const RowIn in(call_, spec_, row, format, difference);
    Range mean = group_mean(dtype, format, in.row());
    if (in.may_overflow()) mean.pinf = mean.ninf = mean.nan = false;
    mean.nan |= row.hull().nan || (row.hull().pinf && row.hull().ninf);
    mean.pinf |= row.hull().pinf;
    mean.ninf |= row.hull().ninf;
    result = join(result, mean);
  }
  return spec_.centre == Centre::zero ? point(0) : result;
}

Range RowNorm::variance(const Group& row, DType dtype) const {
  if (row.surely_empty()) return {.nan = true};
  Range result;
  const Range hull = row.hull();
  for (const auto& [format, difference] : all_ways()) {
    const RowIn in(call_, spec_, row, format, difference);
    if (in.hull().has_finite()) result = join(result, from_bounds(dtype, in.variance_lo(), in.variance_hi(), 1));
  }
  if (result.has_finite() && spec_.differences.empty()) result.lo = std::max(result.lo, 0.0);
  result.nan |= hull.nan || hull.pinf || hull.ninf;
  return result;
}

Range RowNorm::inverse_deviation(const Group& row, DType dtype) const {
  if (row.surely_empty()) return {.nan = true};
  Range result;
  const Range hull = row.hull();
  for (const auto& [format, difference] : all_ways()) {
    const RowIn in(call_, spec_, row, format, difference);
    if (!in.hull().has_finite()) {
      if (hull.has_finite()) result = join(result, point(0));
      continue;
    }
    const double least = std::max(in.variance_lo() + in.epsilon(), min_subnormal(format));
    const double most = std::max(in.variance_hi() + in.epsilon(), least);
    const double slack = 8 * unit_roundoff(format);
    result = join(result, from_bounds(dtype, (1 - slack) / std::sqrt(most), (1 + slack) / std::sqrt(least), 1));
    if (in.may_overflow() || in.hull().pinf || in.hull().ninf) result = join(result, point(0));
  }
  if (result.has_finite()) result.lo = std::max(result.lo, 0.0);
  const bool infinite = hull.pinf || hull.ninf;
  if (infinite) result = join(result, point(0));
  result.nan |= hull.nan || (infinite && spec_.centre == Centre::mean);
  return result;
}

void RowNorm::report(RangeCall& call, int operand) const {
  call.site("FN304", operand, seen_, vanishes_, vanishes_ && always_vanishes_);
  if (!spec_.differences.empty()) call.site("FN305", operand, seen_, negative_);
  call.site("FN205", operand, seen_, overflows_);
}

}  // namespace finity
