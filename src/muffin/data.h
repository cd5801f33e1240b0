// What models learn from: the shapes of the paper's six data sets and two of our own, with drawn elements; what is
// learned does not matter here, only that numbers are of the usual size.
#pragma once

#include <span>
#include <string_view>

#include "base/rng.h"
#include "tensor/tensor.h"

namespace finity::muffin {

struct DataSet {
  std::string_view name;
  Dims sample = {};          // without the batch
  std::int64_t classes = 1;  // 1: a number is predicted
  bool words = false;        // elements are indices of words
  bool published = true;     // one of the paper's
};

// "imagenet" is 64 by 64 pixels; "imagenet-full" 224 by 224 and not among the published ones that take turns.
std::span<const DataSet> data_sets();
// Throws Error naming the data sets.
const DataSet& data_set(std::string_view name);

Tensor draw_samples(const DataSet& data, std::int64_t batch, Rng& rng);

}  // namespace finity::muffin
