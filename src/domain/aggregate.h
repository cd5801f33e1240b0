// Plain numbers of a tensor and what is taken of them along axes: the definition
// that relations (relation.h) are checked against.
#pragma once

#include <span>
#include <vector>

#include "domain/relation.h"

namespace finity {

struct Numbers {
  Dims dims = {};
  std::vector<double> values = {};
};

Numbers numbers_of(const Tensor& tensor);
Numbers magnitudes(Numbers x);
// The axes stay with size 1.
Numbers aggregate(const Numbers& x, Of of, AxisBits axes);
// Of::mean, Of::mean_square and Of::squared_mean of windows over the last axes; padding is zeros.
Numbers aggregate(const Numbers& x, Of of, const Windows& windows);
// The same numbers with axes of size 1 put in; `axes` are those of the result.
Numbers with_axes(Numbers x, AxisBits axes);

// good(element of a, elements of the others) at all indices of their common shape; false where they do not broadcast.
bool for_all_pairs(const Numbers& a, const std::vector<const Numbers*>& others,
                   const std::function<bool(double, std::span<const double>)>& good);

}  // namespace finity
