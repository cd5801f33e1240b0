// The inner loop of matrix products and convolutions. Every result is a sum of
// products added from left to right, carried in float32 for float16, bfloat16 and
// float32, in float64 for float64, and in unsigned integers (which wrap) for
// integers; the caller rounds the total into its dtype once. Many results advance
// together, so the loop runs over contiguous memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/time_limit.h"
#include "ops/shared/accumulate.h"
#include "tensor/tensor.h"

namespace finity {

// One wording for the op table.
inline constexpr std::string_view kDotFreedom =
    "products are added in index order, in float32 (float64 for float64), and rounded once";

// Calls f.template operator()<A>() with the type that sums of products are carried in.
template <class F>
decltype(auto) with_dot_type(DType dtype, F&& f) {
  if (is_int(dtype)) return f.template operator()<std::uint64_t>();
  return with_float_sum_type(dtype, f);
}

// Number of elements of a result that is accumulated in a vector; throws Error instead of allocating too much.
inline std::size_t result_count(std::span<const std::int64_t> dims) {
  const std::int64_t count = element_count(dims);
  if (count > Tensor::kMaxBytes / 8) throw Error("result " + to_string(dims) + " is too large");
  return static_cast<std::size_t>(count);
}

// out[i] += factor * in[i]. The block of constant length is what lets the compiler use vectors at -O2.
template <class A>
void add_scaled(A* __restrict out, const A* __restrict in, A factor, std::int64_t count) {
  constexpr std::int64_t kBlock = 8;
  check_time_after(count);
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (std::int64_t j = 0; j < kBlock; ++j) out[i + j] += factor * in[i + j];
  }
  for (; i < count; ++i) out[i] += factor * in[i];
}

// The same with steps between the elements used.
template <class A>
void add_scaled(A* __restrict out, std::int64_t out_step, const A* __restrict in, std::int64_t in_step, A factor,
                std::int64_t count) {
  check_time_after(count);
  for (std::int64_t i = 0; i < count; ++i) out[i * out_step] += factor * in[i * in_step];
}

}  // namespace finity
