// Sums of the weights behind every output of a matrix product or convolution: the
// one pass over the elements of large constants. With S = sum of w and A = sum of
// |w|, the positive weights add up to (A + S) / 2 and the negative ones to (S - A) / 2,
// exactly so if and only if all have one sign; an infinite or NaN weight makes A so too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// Elements in memory, row-major and little-endian, not necessarily aligned.
struct WeightData {
  DType dtype = DType::undefined;
  std::span<const std::byte> bytes = {};
};
// Whether elements of this type can be read as weights.
bool is_weight_type(DType dtype);

// One axis of a constant. An output sums over the `summed` axes; the others say which output.
struct WeightAxis {
  std::int64_t size = 1;
  bool summed = false;
};

struct WeightSums {
  std::size_t columns = 1;             // indices of the axes that are not summed, row-major
  std::size_t segments = 1;            // parts of the summed axis
  std::vector<double> sum = {};        // of w, [segment, column]
  std::vector<double> magnitude = {};  // of |w|

  double positive(std::size_t segment, std::size_t column) const {
    const std::size_t at = segment * columns + column;
    return (magnitude[at] + sum[at]) / 2;
  }
  double negative(std::size_t segment, std::size_t column) const {
    const std::size_t at = segment * columns + column;
    return (sum[at] - magnitude[at]) / 2;
  }
};

// The order of summed and other axes is free. `cuts` (inner positions of the only summed axis) make segments;
// with several summed axes there must be none. `offsets`, one per column or one for all, are subtracted from the
// elements first (zero points).
WeightSums weight_sums(const WeightData& data, std::span<const WeightAxis> axes,
                       std::span<const std::int64_t> cuts = {}, std::span<const double> offsets = {});

// Whether an element is zero. Only asked when it meets an infinity.
bool has_zero(const WeightData& data);

}  // namespace finity
