#include "domain/range.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Doubles between 2^53 and 2^64 stand for integers they may not hit exactly.
Range integer_bounds(DType dtype, double lo, double hi) {
  lo = std::floor(lo);
  hi = std::ceil(hi);
  if (std::abs(lo) > kExactIntegers) lo = std::nextafter(lo, -kInf);
  if (std::abs(hi) > kExactIntegers) hi = std::nextafter(hi, kInf);
  if (!(lo >= lowest_finite(dtype) && hi <= max_finite(dtype))) return any_finite(dtype);
  return {.lo = lo, .hi = hi, .integer = true};
}

// A rounded float end becomes a flag when it left the format. Formats without infinities overflow to NaN.
Range float_bounds(DType dtype, double lo, double hi) {
  const double max = max_finite(dtype);
  const bool has_infinity = float_format(dtype).infinite;
  Range range{.lo = lo, .hi = hi};
  if (!(hi <= max)) {
    (has_infinity ? range.pinf : range.nan) = true;
    range.hi = max;
  }
  if (!(lo >= -max)) {
    (has_infinity ? range.ninf : range.nan) = true;
    range.lo = -max;
  }
  // Everything overflowed to one side: no finite value is left.
  if (lo > max || hi < -max) {
    range.lo = kInf;
    range.hi = -kInf;
  }
  if (lo > max && has_infinity) range.ninf = false;
  if (hi < -max && has_infinity) range.pinf = false;
  return range;
}

double rounded(DType dtype, double x) {
  const double result = round_to(dtype, x);
  // Formats without infinity round an overflow to NaN; keep the direction.
  return std::isnan(result) ? std::copysign(kInf, x) : result;
}

}  // namespace

bool Range::contains(double x) const {
  if (std::isnan(x)) return nan;
  if (std::isinf(x)) return x > 0 ? pinf : ninf;
  if (!(x >= lo && x <= hi)) return false;
  if (nonzero && (x == 0 || std::abs(x) < gap)) return false;
  return !integer || x == std::floor(x);
}

double Range::magnitude() const { return has_finite() ? std::max(std::abs(lo), std::abs(hi)) : 0; }

double Range::least_magnitude() const {
  if (!has_finite()) return kInf;
  if (lo > 0) return lo;
  if (hi < 0) return -hi;
  return nonzero ? gap : 0;
}

Range Range::finite() const {
  Range result = *this;
  result.nan = result.pinf = result.ninf = false;
  return result;
}

Range empty_range() { return {}; }

Range point(double x) {
  if (std::isnan(x)) return {.nan = true};
  if (std::isinf(x)) return {.pinf = x > 0, .ninf = x < 0};
  return {.lo = x, .hi = x, .integer = x == std::floor(x)};
}

Range any_finite(DType dtype) {
  return {.lo = lowest_finite(dtype), .hi = max_finite(dtype), .integer = is_int(dtype) || dtype == DType::boolean};
}

Range top(DType dtype) {
  Range range = any_finite(dtype);
  if (is_float(dtype)) {
    const FloatFormat& format = float_format(dtype);
    range.nan = format.nan;
    range.pinf = range.ninf = format.infinite;
  } else if (!is_int(dtype) && dtype != DType::boolean) {
    range.nan = range.pinf = range.ninf = true;  // of an unknown type: anything
  }
  return range;
}

Range from_bounds(DType dtype, double lo, double hi) {
  if (std::isnan(lo) || std::isnan(hi)) return top(dtype);
  if (lo > hi) return {};
  if (is_float(dtype)) return float_bounds(dtype, rounded(dtype, lo), rounded(dtype, hi));
  if (dtype == DType::boolean) return {.lo = lo > 0 ? 1.0 : 0.0, .hi = hi < 1 ? 0.0 : 1.0, .integer = true};
  if (is_int(dtype)) return integer_bounds(dtype, lo, hi);
  return top(dtype);
}

Range from_bounds(DType dtype, double lo, double hi, int ulps) {
  Range range = from_bounds(dtype, lo, hi);
  if (!is_float(dtype) || !range.has_finite()) return range;
  const double max = max_finite(dtype);
  for (int i = 0; i < ulps; ++i) {
    range.lo = std::max(next_down(dtype, range.lo), -max);
    range.hi = std::min(next_up(dtype, range.hi), max);
  }
  return range;
}

Range join(const Range& a, const Range& b) {
  if (a.is_empty()) return b;
  if (b.is_empty()) return a;
  Range range{.lo = std::min(a.lo, b.lo),
              .hi = std::max(a.hi, b.hi),
              .nan = a.nan || b.nan,
              .pinf = a.pinf || b.pinf,
              .ninf = a.ninf || b.ninf,
              .integer = (a.integer || !a.has_finite()) && (b.integer || !b.has_finite()),
              .nonzero = false};
  if (!range.has_finite()) range.integer = false;
  range.nonzero = range.lo <= 0 && range.hi >= 0 && !a.may_be_zero() && !b.may_be_zero();
  if (range.nonzero) range.gap = std::min(a.least_magnitude(), b.least_magnitude());
  return range;
}

namespace {

// Numbers closer to zero than the gap, and zero itself, are not among the values.
void leave_out_zero(Range& range, double gap) {
  if (range.integer) gap = std::ceil(gap);
  if (range.lo > -gap && range.lo < gap) range.lo = gap;
  if (range.hi > -gap && range.hi < gap) range.hi = -gap;
  range.nonzero = range.lo <= 0 && range.hi >= 0;
  if (range.nonzero) range.gap = gap;
  if ((range.nonzero && range.lo == 0 && range.hi == 0) || !range.has_finite()) {
    range.lo = kInf;
    range.hi = -kInf;
    range.integer = range.nonzero = false;
    range.gap = 0;
  }
}

}  // namespace

Range meet(const Range& a, const Range& b) {
  Range range{.lo = std::max(a.lo, b.lo),
              .hi = std::min(a.hi, b.hi),
              .nan = a.nan && b.nan,
              .pinf = a.pinf && b.pinf,
              .ninf = a.ninf && b.ninf,
              .integer = a.integer || b.integer,
              .nonzero = false};
  if (range.integer) {
    range.lo = std::ceil(range.lo);
    range.hi = std::floor(range.hi);
  }
  if (!range.has_finite()) {
    range.lo = kInf;
    range.hi = -kInf;
    range.integer = false;
    return range;
  }
  if (a.nonzero || b.nonzero) leave_out_zero(range, std::max(a.nonzero ? a.gap : 0, b.nonzero ? b.gap : 0));
  return range;
}

bool is_subset(const Range& a, const Range& b) {
  if ((a.nan && !b.nan) || (a.pinf && !b.pinf) || (a.ninf && !b.ninf)) return false;
  if (!a.has_finite()) return true;
  if (!(a.lo >= b.lo && a.hi <= b.hi)) return false;
  if (b.nonzero && (a.may_be_zero() || !(a.least_magnitude() >= b.gap))) return false;
  return !b.integer || a.integer;
}

Range widen(const Range& a, const Range& b, DType dtype) {
  Range range = join(a, b);
  if (!a.has_finite() || !range.has_finite()) return range;
  // A few steps at powers of the format's range, so that widening ends soon.
  static constexpr std::array<double, 12> kSteps = {0, 1, 2, 10, 100, 1000, 1e4, 6e4, 1e6, 1e9, 1e18, 1e37};
  const double max = max_finite(dtype);
  const double lowest = lowest_finite(dtype);
  const auto beyond = [&](double magnitude) {
    const auto* step = std::ranges::find_if(kSteps, [&](double s) { return s >= magnitude; });
    return step == kSteps.end() ? kInf : *step;
  };
  if (range.hi > a.hi) {
    if (range.hi <= 0) range.hi = range.hi <= -1 ? -1 : 0;
    else range.hi = std::min(beyond(range.hi), max);
  }
  if (range.lo < a.lo) {
    if (range.lo >= 0) range.lo = range.lo >= 1 ? 1 : 0;
    else range.lo = std::max(-beyond(-range.lo), lowest);
  }
  range.nonzero = false;
  range.gap = 0;
  return range;
}

Range increasing(DType dtype, const Range& x, double (*f)(double), int ulps, double floor, double ceiling) {
  Range range;
  if (x.has_finite()) {
    const double lo = f(x.lo);
    const double hi = f(x.hi);
    // Libraries may swap neighbours that are equal but for rounding.
    range = from_bounds(dtype, std::min(lo, hi), std::max(lo, hi), ulps);
    // f(0) = 0 is exact in every library: sin, tanh, expm1, ...
    if (x.lo == 0 && lo == 0 && range.has_finite()) range.lo = 0;
    if (x.hi == 0 && hi == 0 && range.has_finite()) range.hi = 0;
    if (range.has_finite()) {
      range.lo = std::clamp(range.lo, floor, ceiling);
      range.hi = std::clamp(range.hi, floor, ceiling);
    }
  }
  if (x.pinf) range = join(range, from_bounds(dtype, f(kInf), f(kInf)));
  if (x.ninf) range = join(range, from_bounds(dtype, f(-kInf), f(-kInf)));
  range.nan |= x.nan;
  return range;
}

namespace {

// Shortest digits that read back, as a float where the value is one.
std::string digits(double x) {
  if (x == 0) return "0";  // without the sign
  std::array<char, 32> buffer{};
  const bool narrow = static_cast<double>(static_cast<float>(x)) == x;
  const auto end = narrow ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<float>(x))
                          : std::to_chars(buffer.data(), buffer.data() + buffer.size(), x);
  return {buffer.data(), end.ptr};
}

}  // namespace

std::string to_string(const Range& range) {
  std::string text;
  const auto add_part = [&](const std::string& part) { text += (text.empty() ? "" : " or ") + part; };
  if (range.has_finite()) {
    add_part(range.lo == range.hi ? digits(range.lo) : "[" + digits(range.lo) + ", " + digits(range.hi) + "]");
    if (range.nonzero && range.gap > 0) text += " without (" + digits(-range.gap) + ", " + digits(range.gap) + ")";
    else if (range.nonzero) text += " without 0";
  }
  if (range.pinf) add_part("+Inf");
  if (range.ninf) add_part("-Inf");
  if (range.nan) add_part("NaN");
  return text.empty() ? "nothing" : text;
}

}  // namespace finity
