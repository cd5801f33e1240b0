// Elements as plain numbers and back. Evaluation works on these: floats are
// computed in double (or float, for accumulations), integers in 64 bits, and
// the result is rounded or wrapped into the node's dtype when stored.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// C is double, float, std::int64_t, std::uint64_t or std::complex<double>.
// Reading floats as integers truncates towards zero (saturating; NaN gives 0);
// integers and bools read as any C. Strings throw.
template <class C>
std::vector<C> elements(const Tensor& tensor);

// Rounds (floats), wraps (integers), or tests for non-zero (bool) into dtype.
template <class C>
Tensor from_elements(DType dtype, Dims dims, std::span<const C> values);
template <class C>
Tensor from_elements(DType dtype, Dims dims, const std::vector<C>& values) {
  return from_elements<C>(dtype, std::move(dims), std::span<const C>(values));
}

// One element, for scalars and small parameter tensors.
double element_as_double(const Tensor& tensor, std::int64_t index);
std::int64_t element_as_int(const Tensor& tensor, std::int64_t index);

// Calls f with the dtype's storage type as a type argument: f.template operator()<T>().
template <class F>
decltype(auto) with_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::int8:
    case DType::int4:
    case DType::int2: return f.template operator()<std::int8_t>();
    case DType::int16: return f.template operator()<std::int16_t>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::uint16:
    case DType::float16:
    case DType::bfloat16: return f.template operator()<std::uint16_t>();
    case DType::uint32: return f.template operator()<std::uint32_t>();
    case DType::uint64: return f.template operator()<std::uint64_t>();
    case DType::complex64: return f.template operator()<std::complex<float>>();
    case DType::complex128: return f.template operator()<std::complex<double>>();
    case DType::string: return f.template operator()<std::string>();
    default: return f.template operator()<std::uint8_t>();
  }
}

}  // namespace finity
