// The one summation every op uses, so that results do not depend on which op
// happens to add. Sums of float16, bfloat16 and float32 are carried in float32,
// of float64 in float64, of integers in 64 bits that wrap; the caller rounds the
// total into its dtype once, at the end.
//
// Order: up to kSumBlock terms are added from left to right, starting with the
// first (so a sum of -0 alone is -0); longer ranges are halved at a multiple of
// kSumBlock and the two sums added. The rounding error of n terms is then at most
// about (kSumBlock + log2(n / kSumBlock)) units in the last place of sum(|x|).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "tensor/dtype.h"

namespace finity {

inline constexpr std::int64_t kSumBlock = 32;

// The format that the reference carries sums of a float format in.
constexpr DType sum_format(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

// Calls f.template operator()<A>() with the type that sums of a float dtype are carried in.
template <class F>
decltype(auto) with_float_sum_type(DType dtype, F&& f) {
  if (!is_float(dtype)) throw Error("expected a float tensor, got " + std::string(name(dtype)));
  if (dtype == DType::float64) return f.template operator()<double>();
  return f.template operator()<float>();
}

// The same for any dtype that can be summed: float, double, std::int64_t, or std::uint64_t for uint64 only.
template <class F>
decltype(auto) with_sum_type(DType dtype, F&& f) {
  if (is_float(dtype)) return with_float_sum_type(dtype, f);
  if (dtype == DType::uint64) return f.template operator()<std::uint64_t>();
  if (is_int(dtype) || dtype == DType::boolean) return f.template operator()<std::int64_t>();
  throw Unsupported("dtype " + std::string(name(dtype)) + " is not summed");
}

// False for integers, so that code for both kinds can ask.
template <class A>
bool is_nan(A x) {
  if constexpr (std::is_floating_point_v<A>) return std::isnan(x);
  else return false;
}

// Signed integers wrap: computed unsigned, where overflow is defined.
template <class A>
A wrapping_add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class A>
A wrapping_multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

// get(begin) + ... + get(end - 1); zero for an empty range. get returns A.
template <class A, class Get>
A pairwise_sum(std::int64_t begin, std::int64_t end, const Get& get) {
  const std::int64_t count = end - begin;
  if (count <= 0) return A{};
  if (count <= kSumBlock) {
    A sum = get(begin);
    for (std::int64_t i = begin + 1; i < end; ++i) sum = wrapping_add<A>(sum, get(i));
    return sum;
  }
  const std::int64_t blocks = (count + kSumBlock - 1) / kSumBlock;
  const std::int64_t middle = begin + (blocks / 2) * kSumBlock;
  return wrapping_add<A>(pairwise_sum<A>(begin, middle, get), pairwise_sum<A>(middle, end, get));
}
template <class A, class Get>
A pairwise_sum(std::int64_t count, const Get& get) {
  return pairwise_sum<A>(0, count, get);
}

// Mean and population variance, in two passes: the variance is the mean of the squared distances to the mean, which
// cannot be negative. NaN for no elements.
template <class A>
struct Moments {
  A mean{};
  A variance{};
};
template <class A, class Get>
Moments<A> moments(std::int64_t count, const Get& get) {
  static_assert(std::is_floating_point_v<A>);
  const A n = static_cast<A>(count);
  const A mean = pairwise_sum<A>(count, get) / n;
  const auto squared_distance = [&](std::int64_t i) {
    const A distance = get(i) - mean;
    return distance * distance;
  };
  return {mean, pairwise_sum<A>(count, squared_distance) / n};
}

}  // namespace finity
