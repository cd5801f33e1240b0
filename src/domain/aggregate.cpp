#include "domain/aggregate.h"

#include <algorithm>
#include <cmath>

#include "tensor/convert.h"
#include "tensor/index.h"

namespace finity {

namespace {

double start_of(Of of) { return of == Of::largest ? -kInf : of == Of::smallest ? kInf : 0; }

// NaN among the elements gives NaN.
double combined(Of of, double all, double x) {
  if (std::isnan(all) || std::isnan(x)) return std::nan("");
  switch (of) {
    case Of::largest: return std::max(all, x);
    case Of::smallest: return std::min(all, x);
    case Of::magnitude: return std::max(all, std::abs(x));
    case Of::square: return std::max(all, x * x);
    case Of::size_sum: return all + std::abs(x);
    case Of::square_sum:
    case Of::mean_square: return all + x * x;
    case Of::norm: return std::hypot(all, x);  // squares would overflow
    default: return all + x;
  }
}

double finished(Of of, double all, double count) {
  if (of == Of::mean || of == Of::mean_square) return all / count;
  return of == Of::squared_mean ? (all / count) * (all / count) : all;
}

// Flat position of an index in a tensor that broadcasts to it.
std::size_t position(const Dims& dims, const std::vector<std::int64_t>& strides, std::span<const std::int64_t> index) {
  const std::size_t more = index.size() - dims.size();
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1) at += index[more + axis] * strides[axis];
  }
  return static_cast<std::size_t>(at);
}

bool broadcast_onto(const Dims& from, Dims& to) {
  if (from.size() > to.size()) to.insert(to.begin(), from.size() - to.size(), 1);
  const std::size_t more = to.size() - from.size();
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    std::int64_t& size = to[more + axis];
    if (size == 1) size = from[axis];
    else if (from[axis] != 1 && from[axis] != size) return false;
  }
  return true;
}

}  // namespace

Numbers numbers_of(const Tensor& tensor) { return {tensor.dims(), elements<double>(tensor)}; }

Numbers magnitudes(Numbers x) {
  for (double& value : x.values) value = std::abs(value);
  return x;
}

Numbers aggregate(const Numbers& x, Of of, AxisBits axes) {
  Numbers result{x.dims, {}};
  double count = 1;
  for (std::size_t axis = 0; axis < x.dims.size() && axis < 32; ++axis) {
    if ((axes >> axis & 1U) == 0) continue;
    count *= static_cast<double>(x.dims[axis]);
    result.dims[axis] = 1;
  }
  const std::vector<std::int64_t> strides = strides_of(result.dims);
  result.values.assign(static_cast<std::size_t>(element_count(result.dims)), start_of(of));
  std::size_t next = 0;
  for (IndexCounter at(x.dims); at.valid(); at.next()) {
    double& all = result.values[position(result.dims, strides, at.index())];
    all = combined(of, all, x.values[next++]);
  }
  for (double& all : result.values) all = finished(of, all, count);
  return result;
}

namespace {

// Along each axis: where the window of an index starts, and how many of its elements are inside.
struct Reach {
  std::int64_t first = 0, last = 0;  // of the source, the padding left out
  double counted = 0;                // what the mean divides by
};

Reach reach_of(const Windows::Axis& axis, std::int64_t index, std::int64_t size, bool counts_padding) {
  const std::int64_t start = index * axis.stride - axis.begin;
  Reach reach{.first = std::max<std::int64_t>(start, 0), .last = std::min(start + axis.kernel, size)};
  const std::int64_t padded = std::min(start + axis.kernel, size + axis.end) - start;
  reach.counted = static_cast<double>(counts_padding ? padded : reach.last - reach.first);
  return reach;
}

}  // namespace

Numbers aggregate(const Numbers& x, Of of, const Windows& windows) {
  const std::size_t rank = windows.rank();
  if (rank == 0 || x.dims.size() < rank) return {};
  const std::size_t first = x.dims.size() - rank;
  Numbers result{x.dims, {}};
  for (std::size_t i = 0; i < rank; ++i) {
    const Windows::Axis& axis = windows.axes[i];
    const std::int64_t room = x.dims[first + i] + axis.begin + axis.end - axis.kernel;
    result.dims[first + i] = room < 0 ? 0 : room / axis.stride + 1;
  }
  const std::vector<std::int64_t> strides = strides_of(x.dims);
  for (IndexCounter at(result.dims); at.valid(); at.next()) {
    std::int64_t base = 0;
    for (std::size_t axis = 0; axis < first; ++axis) base += at.index()[axis] * strides[axis];
    std::array<Reach, 2> reach = {{{}, {.first = 0, .last = 1, .counted = 1}}};
    for (std::size_t i = 0; i < rank; ++i)
      reach[i] = reach_of(windows.axes[i], at.index()[first + i], x.dims[first + i], windows.counts_padding);
    double all = start_of(of);
    for (std::int64_t i = reach[0].first; i < reach[0].last; ++i) {
      for (std::int64_t k = reach[1].first; k < reach[1].last; ++k) {
        const std::int64_t inner = rank == 2 ? k * strides[first + 1] : 0;
        all = combined(of, all, x.values[static_cast<std::size_t>(base + i * strides[first] + inner)]);
      }
    }
    result.values.push_back(finished(of, all, reach[0].counted * reach[1].counted));
  }
  return result;
}

Numbers with_axes(Numbers x, AxisBits axes) {
  for (std::size_t axis = 0; axis < 32; ++axis) {
    if ((axes >> axis & 1U) == 0 || axis > x.dims.size()) continue;
    x.dims.insert(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  }
  return x;
}

bool for_all_pairs(const Numbers& a, const std::vector<const Numbers*>& others,
                   const std::function<bool(double, std::span<const double>)>& good) {
  Dims dims = a.dims;
  for (const Numbers* other : others) {
    if (!broadcast_onto(other->dims, dims)) return false;
  }
  std::vector<std::vector<std::int64_t>> strides;
  for (const Numbers* other : others) strides.push_back(strides_of(other->dims));
  const std::vector<std::int64_t> own = strides_of(a.dims);
  std::vector<double> values(others.size());
  for (IndexCounter at(dims); at.valid(); at.next()) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      values[i] = others[i]->values[position(others[i]->dims, strides[i], at.index())];
    }
    if (!good(a.values[position(a.dims, own, at.index())], values)) return false;
  }
  return true;
}

}  // namespace finity
