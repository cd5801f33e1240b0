// Evaluation of elementwise ops. Floats of every format are computed in double
// and rounded once into the output's dtype, which for + - * / sqrt is exactly the
// correctly rounded result of the narrow format (see tensor/float_formats.h) and
// for exp, log, ... at least as good as any library's. Integers wrap.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

// For each element of the broadcast shape, the positions in a and b.
struct BroadcastPairs {
  Dims dims;
  std::vector<std::int64_t> a, b;
};
BroadcastPairs broadcast_pairs(const Dims& a, const Dims& b);
// Elements of `tensor` repeated to `dims`; throws Error when it does not broadcast to exactly that.
Tensor broadcast_to(const Tensor& tensor, const Dims& dims);

// Calls f with the type in which the dtype is computed: double, std::int64_t or
// std::uint64_t (only uint64 needs the last; smaller unsigned types fit int64).
template <class F>
decltype(auto) with_compute_type(DType dtype, F&& f) {
  if (is_float(dtype)) return f.template operator()<double>();
  if (dtype == DType::uint64) return f.template operator()<std::uint64_t>();
  if (is_int(dtype) || dtype == DType::boolean) return f.template operator()<std::int64_t>();
  throw Unsupported("dtype " + std::string(name(dtype)) + " is not computed with");
}

// f is called with double, int64 or uint64 operands and returns any arithmetic type.
template <class F>
Tensor map_unary(const Tensor& x, DType out, F f) {
  return with_compute_type(x.dtype(), [&]<class C>() {
    const std::vector<C> from = elements<C>(x);
    using R = decltype(f(C{}));
    using Stored = std::conditional_t<std::is_same_v<R, bool>, std::int64_t, R>;
    std::vector<Stored> to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = f(from[i]);
    return from_elements<Stored>(out, x.dims(), to);
  });
}

template <class F>
Tensor map_binary(const Tensor& a, const Tensor& b, DType out, F f) {
  if (a.dtype() != b.dtype()) {
    throw Error("operands are " + std::string(name(a.dtype())) + " and " + std::string(name(b.dtype())));
  }
  return with_compute_type(a.dtype(), [&]<class C>() {
    const std::vector<C> left = elements<C>(a);
    const std::vector<C> right = elements<C>(b);
    using R = decltype(f(C{}, C{}));
    using Stored = std::conditional_t<std::is_same_v<R, bool>, std::int64_t, R>;
    const auto mapped = [&](const Dims& dims, std::size_t count, auto&& x, auto&& y) {
      std::vector<Stored> to(count);
      for (std::size_t i = 0; i < count; ++i) to[i] = f(left[x(i)], right[y(i)]);
      return from_elements<Stored>(out, dims, to);
    };
    const auto own = [](std::size_t i) { return i; };
    const auto first = [](std::size_t) { return std::size_t{0}; };
    // A list of positions is four times as large as float16 operands; most pairs need none.
    if (a.dims() == b.dims()) return mapped(a.dims(), left.size(), own, own);
    if (right.size() == 1 && b.rank() <= a.rank()) return mapped(a.dims(), left.size(), own, first);
    if (left.size() == 1 && a.rank() <= b.rank()) return mapped(b.dims(), right.size(), first, own);
    const BroadcastPairs pairs = broadcast_pairs(a.dims(), b.dims());
    const auto listed = [](const std::vector<std::int64_t>& all) {
      return [&all](std::size_t i) { return static_cast<std::size_t>(all[i]); };
    };
    return mapped(pairs.dims, pairs.a.size(), listed(pairs.a), listed(pairs.b));
  });
}

// eval of y = f(x) for a float op, f a plain function of double: eval_float_unary<std::log>.
template <double (*F)(double)>
void eval_float_unary(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (!is_float(x.dtype())) throw Error("expected a float tensor, got " + std::string(name(x.dtype())));
  std::vector<double> values = elements<double>(x);
  for (double& value : values) value = F(value);
  call.out(0, from_elements<double>(x.dtype(), x.dims(), values));
}

// Of integers: throws Error.
inline void require_divisor(bool non_zero) {
  if (!non_zero) throw Error("integer division by zero in input B");
}

}  // namespace finity
