// What the elementwise ops of one operand compute: floats as double, integers exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/error.h"

namespace finity {

inline double reciprocal(double x) { return 1.0 / x; }
// Half to even: the rounding mode is never changed.
inline double round_half_even(double x) { return std::nearbyint(x); }

// Negation wraps at the most negative integer: computed unsigned, where overflow is defined.
inline std::int64_t negated(std::int64_t x) {
  return static_cast<std::int64_t>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}

struct Absolute {
  double operator()(double x) const { return std::abs(x); }
  std::uint64_t operator()(std::uint64_t x) const { return x; }
  std::int64_t operator()(std::int64_t x) const { return x < 0 ? negated(x) : x; }
};

struct Negated {
  double operator()(double x) const { return -x; }
  std::uint64_t operator()(std::uint64_t x) const { return std::uint64_t{0} - x; }
  std::int64_t operator()(std::int64_t x) const { return negated(x); }
};

struct Signum {
  double operator()(double x) const { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); }
  std::uint64_t operator()(std::uint64_t x) const { return x > 0 ? 1 : 0; }
  std::int64_t operator()(std::int64_t x) const { return (x > 0) - (x < 0); }
};

// Opsets 9 to 12 allow integers: their result is truncated like any cast.
struct ErrorFunction {
  template <class C>
  double operator()(C x) const {
    return std::erf(static_cast<double>(x));
  }
};

struct LogicalNot {
  template <class C>
  bool operator()(C x) const {
    return x == C{};
  }
};

struct FlippedBits {
  template <class C>
  C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return ~x;
    else throw Error("a float has no bits to flip");
  }
};

struct IsNotANumber {
  template <class C>
  bool operator()(C x) const {
    return x != x;
  }
};

}  // namespace finity
