#include "tensor/convert.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

template <class C>
constexpr bool kIsComplex = std::is_same_v<C, std::complex<double>>;

std::int64_t saturating_int(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (x <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(x);
}

std::uint64_t saturating_uint(double x) {
  if (x >= 0x1p64) return std::numeric_limits<std::uint64_t>::max();
  if (x >= 0x1p63) return static_cast<std::uint64_t>(x);
  return static_cast<std::uint64_t>(saturating_int(x));
}

template <class C>
C from_double(double x) {
  if constexpr (std::is_same_v<C, std::int64_t>) return saturating_int(x);
  if constexpr (std::is_same_v<C, std::uint64_t>) return saturating_uint(x);
  if constexpr (std::is_floating_point_v<C>) return static_cast<C>(x);
  if constexpr (kIsComplex<C>) return C(x, 0.0);
}

// Number to number; complex loses its imaginary part only where the target has none.
template <class C, class S>
C convert(S x) {
  if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>) {
    if constexpr (kIsComplex<C>) return C(static_cast<double>(x.real()), static_cast<double>(x.imag()));
    else return from_double<C>(static_cast<double>(x.real()));
  } else if constexpr (std::is_floating_point_v<S>) {
    return from_double<C>(static_cast<double>(x));
  } else if constexpr (kIsComplex<C>) {
    return C(static_cast<double>(x), 0.0);
  } else {
    return static_cast<C>(x);
  }
}

template <class C, class S>
std::vector<C> convert_all(const Tensor& tensor) {
  const std::span<const S> source = tensor.data<S>();
  std::vector<C> result(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) result[i] = convert<C>(source[i]);
  return result;
}

bool is_encoded_float(DType dtype) { return is_float(dtype) && dtype != DType::float32 && dtype != DType::float64; }

template <class C, class S>
std::vector<C> decode_all(const Tensor& tensor) {
  const std::span<const S> source = tensor.data<S>();
  std::vector<C> result(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) result[i] = from_double<C>(decode_float(tensor.dtype(), source[i]));
  return result;
}

// Two's complement of the low `bits`, sign-extended for signed types.
std::uint64_t wrap(DType dtype, std::uint64_t x) {
  const int unused = 64 - info(dtype).bits;
  const std::uint64_t shifted = x << unused;
  if (!is_signed_int(dtype)) return shifted >> unused;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(shifted) >> unused);
}

template <class C>
double real_part(C x) {
  if constexpr (kIsComplex<C>) return x.real();
  else return static_cast<double>(x);
}

template <class C>
std::uint64_t integer_bits(C x) {
  if constexpr (std::is_integral_v<C>) return static_cast<std::uint64_t>(x);
  else {
    const double real = real_part(x);
    return real >= 0x1p63 ? saturating_uint(real) : static_cast<std::uint64_t>(saturating_int(real));
  }
}

template <class C, class S>
S store_one(DType dtype, C x) {
  if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>) {
    using Part = typename S::value_type;
    if constexpr (kIsComplex<C>) return S(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
    else return S(static_cast<Part>(x), Part{0});
  } else if constexpr (std::is_floating_point_v<S>) {
    // Integers go to float32 directly: through double they would be rounded twice.
    if constexpr (std::is_integral_v<C>) return static_cast<S>(x);
    else return static_cast<S>(real_part(x));
  } else {
    if (dtype == DType::boolean) return static_cast<S>(x != C{} ? 1 : 0);
    if (is_encoded_float(dtype)) return static_cast<S>(encode_float(dtype, real_part(x)));
    return static_cast<S>(wrap(dtype, integer_bits(x)));
  }
}

}  // namespace

template <class C>
std::vector<C> elements(const Tensor& tensor) {
  return with_storage(tensor.dtype(), [&]<class S>() -> std::vector<C> {
    if constexpr (std::is_same_v<S, std::string>) {
      throw Error("a string tensor has no numbers");
    } else {
      if constexpr (std::is_same_v<S, std::uint16_t> || std::is_same_v<S, std::uint8_t>) {
        if (is_encoded_float(tensor.dtype())) return decode_all<C, S>(tensor);
      }
      return convert_all<C, S>(tensor);
    }
  });
}

template <class C>
Tensor from_elements(DType dtype, Dims dims, std::span<const C> values) {
  Tensor result(dtype, std::move(dims));
  assert(static_cast<std::size_t>(result.size()) == values.size());
  with_storage(dtype, [&]<class S>() {
    if constexpr (std::is_same_v<S, std::string>) {
      throw Error("numbers cannot be stored in a string tensor");
    } else {
      const std::span<S> target = result.mutable_data<S>();
      for (std::size_t i = 0; i < target.size(); ++i) target[i] = store_one<C, S>(dtype, values[i]);
    }
  });
  return result;
}

template std::vector<double> elements(const Tensor&);
template std::vector<float> elements(const Tensor&);
template std::vector<std::int64_t> elements(const Tensor&);
template std::vector<std::uint64_t> elements(const Tensor&);
template std::vector<std::complex<double>> elements(const Tensor&);
template Tensor from_elements(DType, Dims, std::span<const double>);
template Tensor from_elements(DType, Dims, std::span<const float>);
template Tensor from_elements(DType, Dims, std::span<const std::int64_t>);
template Tensor from_elements(DType, Dims, std::span<const std::uint64_t>);
template Tensor from_elements(DType, Dims, std::span<const std::complex<double>>);

namespace {

template <class C>
C single(const Tensor& tensor, std::int64_t index) {
  if (index < 0 || index >= tensor.size()) throw Error("tensor " + to_string(tensor.dims()) + " has too few elements");
  const auto at = static_cast<std::size_t>(index);
  return with_storage(tensor.dtype(), [&]<class S>() -> C {
    if constexpr (std::is_same_v<S, std::string>) {
      throw Error("a string tensor has no numbers");
    } else {
      if constexpr (std::is_same_v<S, std::uint16_t> || std::is_same_v<S, std::uint8_t>) {
        if (is_encoded_float(tensor.dtype())) return from_double<C>(decode_float(tensor.dtype(), tensor.data<S>()[at]));
      }
      return convert<C>(tensor.data<S>()[at]);
    }
  });
}

}  // namespace

double element_as_double(const Tensor& tensor, std::int64_t index) { return single<double>(tensor, index); }
std::int64_t element_as_int(const Tensor& tensor, std::int64_t index) { return single<std::int64_t>(tensor, index); }

}  // namespace finity
