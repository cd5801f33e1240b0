// Relations of abstract tensors against concrete elements. A relation whose source
// is not at hand, or whose axes do not line up, is left alone.
#include <algorithm>
#include <cmath>

#include "check/escape.h"
#include "domain/facts.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

using Kind = Fact::Kind;

// Reduces the axes of the bit set; the result has the other axes' elements in order.
template <class F>
std::vector<double> reduced(const Tensor& tensor, std::uint32_t axes, double start, F combine) {
  const std::vector<double> values = elements<double>(tensor);
  Dims kept = tensor.dims();
  for (std::size_t axis = 0; axis < kept.size() && axis < 32; ++axis) {
    if ((axes >> axis & 1U) != 0) kept[axis] = 1;
  }
  const std::vector<std::int64_t> strides = strides_of(kept);
  std::vector<double> result(static_cast<std::size_t>(element_count(kept)), start);
  std::size_t next = 0;
  for (IndexCounter at(tensor.dims()); at.valid(); at.next()) {
    std::int64_t position = 0;
    for (std::size_t axis = 0; axis < kept.size(); ++axis) {
      if (kept[axis] != 1) position += at.index()[axis] * strides[axis];
    }
    double& target = result[static_cast<std::size_t>(position)];
    target = combine(target, values[next++]);
  }
  return result;
}

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
}

double terms_of(const Tensor& tensor, std::uint32_t axes) {
  double count = 1;
  for (std::size_t axis = 0; axis < tensor.rank() && axis < 32; ++axis) {
    if ((axes >> axis & 1U) != 0) count *= static_cast<double>(tensor.dim(axis));
  }
  return count;
}

// this (broadcast to the source) against the source, element by element.
template <class F>
bool holds_elementwise(const Tensor& tensor, const Tensor& source, F good) {
  std::vector<double> left;
  try {
    left = elements<double>(broadcast_to(tensor, source.dims()));
  } catch (const Error&) {
    return true;  // the axes do not line up: the fact speaks of another arrangement
  }
  const std::vector<double> right = elements<double>(source);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) || std::isnan(right[i])) continue;
    if (!good(left[i], right[i])) return false;
  }
  return true;
}

bool holds_reduced(const Fact& fact, const Tensor& tensor, const Tensor& source) {
  const std::vector<double> values = elements<double>(tensor);
  const double terms = terms_of(source, fact.axes);
  const double unit = unit_roundoff(tensor.dtype());
  if (!all_finite(values) || !all_finite(elements<double>(source)) || tensor.empty() || source.empty()) return true;
  const auto compare = [&](const std::vector<double>& wanted, auto good) {
    if (wanted.size() != values.size()) return true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!good(values[i], wanted[i])) return false;
    }
    return true;
  };
  if (fact.kind == Kind::max_of) {
    return compare(reduced(source, fact.axes, -kInf, larger), [](double a, double b) { return a == b; });
  }
  const auto add_square = [](double sum, double x) { return sum + x * x; };
  const auto add_plain = [](double sum, double x) { return sum + x; };
  const auto add_size = [](double sum, double x) { return sum + std::abs(x); };
  if (fact.kind == Kind::square_sum_of) {
    const double tiny = terms * min_subnormal(tensor.dtype());
    return compare(reduced(source, fact.axes, 0, add_square), [&](double a, double b) {
      return a >= b * (1 - fact.slack) - tiny - 1e-12 * b || b > max_finite(tensor.dtype());
    });
  }
  if (fact.kind == Kind::norm_at_least || fact.kind == Kind::inverse_norm) {
    const double scale = fact.kind == Kind::norm_at_least && fact.range.is_point() ? fact.range.lo : 1;
    const auto longer = [](double norm, double x) { return std::hypot(norm, x); };
    return compare(reduced(source, fact.axes, 0, longer), [&](double a, double norm) {
      if (fact.kind == Kind::inverse_norm) return !(std::abs(a) * norm * (1 - 1e-12) > fact.range.hi);
      return a >= norm * scale * (1 - fact.slack) * (1 - 1e-12) - fact.lost;
    });
  }
  if (fact.kind != Kind::mean_of && fact.kind != Kind::sum_of) return true;
  const double divisor = fact.kind == Kind::mean_of ? terms : 1;
  const std::vector<double> sums = reduced(source, fact.axes, 0, add_plain);
  const std::vector<double> sizes = reduced(source, fact.axes, 0, add_size);
  for (std::size_t i = 0; i < sums.size() && sums.size() == values.size(); ++i) {
    const double error = (terms + 8) * unit * sizes[i] / divisor + terms * min_subnormal(tensor.dtype());
    if (std::abs(values[i] - sums[i] / divisor) > 2 * error) return false;
  }
  return true;
}

bool holds_in_rows(const Fact& fact, const Tensor& tensor) {
  if (tensor.empty()) return true;
  if (fact.kind == Kind::row_norm) {
    const int order = fact.total;
    // Squares would overflow.
    const auto add_size = [order](double sum, double x) { return order == 2 ? std::hypot(sum, x) : sum + std::abs(x); };
    return std::ranges::all_of(reduced(tensor, fact.axes, 0, add_size),
                               [&](double norm) { return !(norm > fact.range.hi * (1 + 1e-12)); });
  }
  if (fact.kind == Kind::row_min) {
    return std::ranges::all_of(reduced(tensor, fact.axes, kInf, [](double a, double b) { return std::min(a, b); }),
                               [&](double x) { return std::isnan(x) || fact.range.contains(x); });
  }
  if (fact.kind == Kind::row_max) {
    return std::ranges::all_of(reduced(tensor, fact.axes, -kInf, larger),
                               [&](double x) { return std::isnan(x) || fact.range.contains(x); });
  }
  const std::vector<double> sums = reduced(tensor, fact.axes, 0, [](double a, double b) { return a + b; });
  const auto good = [&](double sum) {
    return std::isnan(sum) || (sum >= fact.range.lo - 1e-9 && sum <= fact.range.hi + 1e-9);
  };
  return std::ranges::all_of(sums, good) &&
         std::ranges::none_of(elements<double>(tensor), [](double x) { return x < 0; });
}

// Library functions such as Pow may be a few units off.
bool is_square(DType dtype, double square, double root) {
  if (!is_float(dtype)) return true;  // wraps
  const double expected = round_to(dtype, root * root);
  const double units = 8 * unit_roundoff(dtype) * std::abs(expected) + 8 * min_subnormal(dtype);
  return square == expected || std::abs(square - expected) <= units;
}

bool holds(const Fact& fact, const Tensor& tensor, const Tensor* source) {
  if (speaks_of_rows(fact)) return holds_in_rows(fact, tensor);
  if (source == nullptr || !fact.aligned) return true;
  switch (fact.kind) {
    case Kind::at_least: return holds_elementwise(tensor, *source, [](double a, double b) { return a >= b; });
    case Kind::at_most: return holds_elementwise(tensor, *source, [](double a, double b) { return a <= b; });
    case Kind::at_least_abs:
      return holds_elementwise(tensor, *source,
                               [&, scale = fact.range.is_point() ? fact.range.lo : 1.0](double a, double b) {
                                 return a >= std::abs(b) * scale * (1 - fact.slack) - fact.lost;
                               });
    case Kind::at_most_inverse:
      return holds_elementwise(tensor, *source, [&](double a, double b) {
        return std::isinf(a) || std::isinf(b) || std::abs(a) * std::abs(b) <= fact.range.hi;
      });
    case Kind::max_operand: return holds_elementwise(tensor, *source, [](double a, double b) { return a >= b; });
    case Kind::abs_of: return holds_elementwise(tensor, *source, [](double a, double b) { return a == std::abs(b); });
    case Kind::square_of:
      if (fact.total != 0) return true;  // the square of a mean
      return holds_elementwise(tensor, *source, [&](double a, double b) { return is_square(tensor.dtype(), a, b); });
    default: return holds_reduced(fact, tensor, *source);
  }
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::max_of: return "the maximum of another value";
    case Kind::at_least: return "at least another value";
    case Kind::at_most: return "at most another value";
    case Kind::at_least_abs: return "at least the size of another value";
    case Kind::at_most_inverse: return "bounded by the inverse of another value";
    case Kind::square_sum_of: return "at least a sum of squares";
    case Kind::mean_of: return "the mean of another value";
    case Kind::sum_of: return "the sum of another value";
    case Kind::max_operand: return "a maximum with another value";
    case Kind::square_of: return "the square of another value";
    case Kind::norm_at_least: return "at least the norm of another value";
    case Kind::inverse_norm: return "bounded by the inverse of another value's norm";
    case Kind::row_norm: return "of bounded length in every row";
    case Kind::row_min: return "bounded in every row's minimum";
    case Kind::row_max: return "bounded in every row's maximum";
    case Kind::row_sum: return "bounded in every row's sum";
    default: return "related to another value";
  }
}

}  // namespace

std::string broken_fact(const AbsTensor& range, const Tensor& tensor,
                        const std::function<const Tensor*(ValueId)>& concrete) {
  for (const Fact& fact : range.facts) {
    if (!holds(fact, tensor, concrete(fact.source))) {
      return "was taken to be " + std::string(kind_name(fact.kind)) + " and is not";
    }
  }
  return {};
}

}  // namespace finity
