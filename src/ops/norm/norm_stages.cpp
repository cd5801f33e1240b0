#include "ops/norm/norm_stages.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/elementwise/elementwise.h"
#include "ops/shared/accumulate.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// Arithmetic in A gives float32 and float64 exactly; narrower stash types are rounded to after each step.
template <class A>
class Rounding {
 public:
  explicit Rounding(DType dtype) : dtype_(dtype), exact_(dtype == DType::float32 || dtype == DType::float64) {}
  A operator()(A x) const { return exact_ ? x : static_cast<A>(round_to(dtype_, static_cast<double>(x))); }

 private:
  DType dtype_;
  bool exact_;
};

template <class A>
struct RowResult {
  A mean{};
  A inverse_deviation{};
};

template <class A>
A mean_of_squares(std::span<const A> row, const Rounding<A>& round) {
  const auto square = [&](std::int64_t i) {
    const A x = row[static_cast<std::size_t>(i)];
    return round(x * x);
  };
  const auto count = static_cast<std::int64_t>(row.size());
  return round(pairwise_sum<A>(count, square) / static_cast<A>(count));
}

// Standardises the row in place.
template <class A>
RowResult<A> standardize(std::span<A> row, A epsilon, Centre centre, const Rounding<A>& round) {
  RowResult<A> result;
  if (centre == Centre::mean) {
    const auto count = static_cast<std::int64_t>(row.size());
    const auto get = [&](std::int64_t i) { return row[static_cast<std::size_t>(i)]; };
    result.mean = round(pairwise_sum<A>(count, get) / static_cast<A>(count));
    for (A& x : row) x = round(x - result.mean);
  }
  const A variance = mean_of_squares<A>(row, round);
  const A deviation = round(std::sqrt(round(variance + epsilon)));
  result.inverse_deviation = round(A{1} / deviation);
  for (A& x : row) x = centre == Centre::mean ? round(x * result.inverse_deviation) : round(x / deviation);
  return result;
}

// A tensor whose last axes are all of `dims` from some point on repeats as a whole: element i is at i % size.
bool repeats_whole(const Dims& dims, const Dims& to) {
  return dims.size() <= to.size() && std::equal(dims.rbegin(), dims.rend(), to.rbegin());
}

std::vector<double> repeated(const Tensor& parameter, const Dims& dims) {
  return elements<double>(repeats_whole(parameter.dims(), dims) ? parameter : broadcast_to(parameter, dims));
}

}  // namespace

Standardized standardize_rows(const Tensor& x, std::int64_t rows, DType stash, double epsilon, Centre centre) {
  return with_float_sum_type(stash, [&]<class A>() {
    const Rounding<A> round(stash);
    std::vector<A> values = elements<A>(x);
    for (A& value : values) value = round(value);
    const std::size_t length = rows == 0 ? 0 : values.size() / static_cast<std::size_t>(rows);
    Standardized result{{}, Tensor(stash, {rows}), Tensor(stash, {rows})};
    std::vector<A> means(static_cast<std::size_t>(rows));
    std::vector<A> inverses(static_cast<std::size_t>(rows));
    for (std::size_t row = 0; row < means.size(); ++row) {
      const std::span<A> span(values.data() + row * length, length);
      const RowResult<A> stats = standardize(span, round(static_cast<A>(epsilon)), centre, round);
      means[row] = stats.mean;
      inverses[row] = stats.inverse_deviation;
    }
    result.normalized = from_elements(x.dtype(), x.dims(), values);
    result.mean = from_elements(stash, {rows}, means);
    result.inverse_deviation = from_elements(stash, {rows}, inverses);
    return result;
  });
}

Tensor scale_and_shift(const Tensor& normalized, const Tensor& scale, const Tensor* bias, DType out) {
  std::vector<double> values = elements<double>(normalized);
  if (values.empty()) return {out, normalized.dims()};
  const std::vector<double> factors = repeated(scale, normalized.dims());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = round_to(out, values[i] * factors[i % factors.size()]);
  if (bias != nullptr) {
    const std::vector<double> terms = repeated(*bias, normalized.dims());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += terms[i % terms.size()];
  }
  return from_elements(out, normalized.dims(), values);
}

}  // namespace finity
