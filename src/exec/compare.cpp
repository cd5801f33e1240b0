#include "exec/compare.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "tensor/convert.h"

namespace finity {

namespace {

void mismatch(Compared& result, std::string why) {
  result.same_form = result.identical = result.within = false;
  result.why = std::move(why);
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

void note_difference(Compared& result, double actual, double expected, const Tolerance& tolerance, std::int64_t at) {
  if (same_number(actual, expected)) return;
  result.identical = false;
  if (actual == expected) return;  // zeros of different sign
  double difference = std::abs(actual - expected);
  // Inf against a number, or NaN on one side only.
  if (!(difference <= std::numeric_limits<double>::max())) difference = std::numeric_limits<double>::infinity();
  if (difference > result.largest_absolute || result.worst < 0) {
    result.largest_absolute = std::max(result.largest_absolute, difference);
    result.worst = at;
  }
  const double scale = std::abs(expected);
  if (scale > 0 && std::isfinite(scale))
    result.largest_relative = std::max(result.largest_relative, difference / scale);
  if (!(difference <= tolerance.absolute + tolerance.relative * (std::isfinite(scale) ? scale : 0))) {
    result.within = false;
    ++result.beyond;
  }
}

template <class C>
void compare_numbers(Compared& result, const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  const std::vector<C> a = elements<C>(actual);
  const std::vector<C> b = elements<C>(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if constexpr (std::is_same_v<C, std::complex<double>>) {
      note_difference(result, a[i].real(), b[i].real(), tolerance, at);
      note_difference(result, a[i].imag(), b[i].imag(), tolerance, at);
    } else {
      note_difference(result, static_cast<double>(a[i]), static_cast<double>(b[i]), tolerance, at);
      if (a[i] != b[i] && a[i] == a[i] && b[i] == b[i]) result.identical = false;
    }
  }
}

void compare_strings(Compared& result, const Tensor& actual, const Tensor& expected) {
  for (std::size_t i = 0; i < actual.strings().size(); ++i) {
    if (actual.strings()[i] == expected.strings()[i]) continue;
    result.identical = result.within = false;
    if (result.worst < 0) result.worst = static_cast<std::int64_t>(i);
    ++result.beyond;
  }
}

Compared compare_tensors(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  Compared result;
  if (actual.dtype() != expected.dtype()) {
    mismatch(result,
             "dtype is " + std::string(name(actual.dtype())) + ", expected " + std::string(name(expected.dtype())));
  } else if (actual.dims() != expected.dims()) {
    mismatch(result, "shape is " + to_string(actual.dims()) + ", expected " + to_string(expected.dims()));
  } else if (actual.dtype() == DType::string) {
    compare_strings(result, actual, expected);
  } else if (is_complex(actual.dtype())) {
    compare_numbers<std::complex<double>>(result, actual, expected, tolerance);
  } else if (is_float(actual.dtype())) {
    compare_numbers<double>(result, actual, expected, tolerance);
  } else {
    // Integers are compared as such, with the same tolerance: quantised results may round either way in ONNX's tests.
    compare_numbers<std::int64_t>(result, actual, expected, tolerance);
  }
  return result;
}

void merge(Compared& whole, Compared part) {
  whole.same_form = whole.same_form && part.same_form;
  whole.identical = whole.identical && part.identical;
  whole.within = whole.within && part.within;
  whole.largest_absolute = std::max(whole.largest_absolute, part.largest_absolute);
  whole.largest_relative = std::max(whole.largest_relative, part.largest_relative);
  whole.beyond += part.beyond;
  if (whole.worst < 0) whole.worst = part.worst;
  if (whole.why.empty()) whole.why = std::move(part.why);
}

Compared compare_sequences(const Sequence& actual, const Sequence& expected, const Tolerance& tolerance) {
  Compared result;
  if (actual.size() != expected.size()) {
    mismatch(result,
             "sequence has " + std::to_string(actual.size()) + " items, expected " + std::to_string(expected.size()));
    return result;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) merge(result, compare(actual[i], expected[i], tolerance));
  return result;
}

}  // namespace

Compared compare(const Datum& actual, const Datum& expected, const Tolerance& tolerance) {
  if (actual.tensor() != nullptr && expected.tensor() != nullptr) {
    return compare_tensors(*actual.tensor(), *expected.tensor(), tolerance);
  }
  if (actual.sequence() != nullptr && expected.sequence() != nullptr) {
    return compare_sequences(*actual.sequence(), *expected.sequence(), tolerance);
  }
  Compared result;
  if (actual.present() || expected.present()) mismatch(result, "one is a tensor, the other is not");
  return result;
}

}  // namespace finity
